#include "curve.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

namespace specgate::policy {
namespace {

const auto kBefore = [](double tokens, const Point& point) { return tokens < point.at; };

double just_above(double value) {
  return std::nextafter(value, std::numeric_limits<double>::infinity());
}

}  // namespace

Curve::Curve(std::span<const Point> points) : points_(points.begin(), points.end()) {
  for (std::size_t i = 1; i < points_.size(); ++i) {
    points_[i].time = std::max(points_[i].time, points_[i - 1].time);
  }
}

double Curve::slope_behind(std::size_t point) const {
  if (points_.size() == 1) return 0.0;
  const std::size_t end = std::min(point + 1, points_.size() - 1);
  const Point &a = points_[end - 1], &b = points_[end];
  return (b.time - a.time) / (b.at - a.at);
}

double Curve::Walk::time(double tokens) {
  const auto& points = curve_.points_;
  while (point_ + 1 < points.size() && points[point_ + 1].at <= tokens) ++point_;
  const double behind = std::max(0.0, tokens - points[point_].at);
  return points[point_].time + behind * curve_.slope_behind(point_);
}

double Curve::time(double tokens) const {
  const auto behind = std::upper_bound(points_.begin(), points_.end(), tokens, kBefore);
  if (behind == points_.begin()) return points_.front().time;
  const auto point = static_cast<std::size_t>(behind - points_.begin()) - 1;
  return points_[point].time + (tokens - points_[point].at) * slope_behind(point);
}

Curve Curve::beside(std::span<const double> more) const {
  std::vector<Point> mean = points_;
  for (Point& point : mean) point.time = 0.0;
  for (const double tokens : more) {
    Walk walk(*this);
    for (Point& point : mean) point.time += walk.time(point.at + tokens);
  }
  for (Point& point : mean) point.time /= static_cast<double>(more.size());
  return Curve(mean);
}

double Curve::cheapest(double tokens, double most) const {
  if (most <= 0.0) return 0.0;
  const double begin = time(tokens);
  // The mean is lowest at a point of the curve or at the end.
  double least = (time(tokens + most) - begin) / most;
  const auto first = std::upper_bound(points_.begin(), points_.end(), tokens, kBefore);
  for (auto point = first; point != points_.end() && point->at < tokens + most; ++point) {
    least = std::min(least, (point->time - begin) / (point->at - tokens));
  }
  return least;
}

Curve::Purchase Curve::settle(std::span<double> survival, std::size_t tokens,
                              const Terms& terms) const {
  const auto rest = std::partition(survival.begin(), survival.end(),
                                   [&](double chance) { return chance >= terms.least; });
  const auto able = static_cast<std::size_t>(rest - survival.begin());
  std::sort(survival.begin(), rest, std::greater{});

  const auto known = static_cast<double>(tokens);
  const double begin = time(known);
  Walk walk(*this);
  double brought = 0.0;
  double most_gained = 0.0;
  std::size_t bought = 0;
  for (std::size_t n = 1; n <= std::min(able, terms.most); ++n) {
    brought += survival[n - 1];
    if (n < able && survival[n] == survival[n - 1]) continue;
    const double taken = walk.time(known + static_cast<double>(n)) - begin;
    const double gained = brought - terms.worth * taken;
    // At equal gain more tokens are bought: it does no harm, and the cost is measured.
    if (gained >= most_gained) {
      most_gained = gained;
      bought = n;
    }
  }
  if (bought == survival.size()) return {std::nullopt, most_gained};
  const double next = terms.worth * cheapest(known + static_cast<double>(bought), terms.reach);
  const double refused = bought < able ? just_above(survival[bought]) : terms.least;
  const double price = std::max(next, refused);
  return {bought == 0 ? price : std::min(price, survival[bought - 1]), most_gained};
}

}  // namespace specgate::policy
