#include "price.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace specgate::policy {
namespace {

// Row-steps that the averages look back over: long enough to be steady, short enough to follow a
// request from copying to writing and back.
constexpr double kHorizon = 24.0;

}  // namespace

Price::Price(std::shared_ptr<const Marginals> cost, double margin, double least)
    : cost_(std::move(cost)), margin_(margin), least_(least) {}

void Price::learn(std::size_t rows, std::size_t drafted, std::size_t emitted) {
  if (rows == 0) return;
  const auto count = static_cast<double>(rows);
  const double keep = std::exp(-count / kHorizon);
  length_ += (1.0 - keep) * (static_cast<double>(emitted) / count - length_);
  drafted_ += (1.0 - keep) * (static_cast<double>(drafted) / count - drafted_);
}

double Price::goodput(std::size_t rows) const {
  const auto count = static_cast<double>(rows);
  const auto verified = static_cast<std::size_t>(std::nearbyint(count * (1.0 + drafted_)));
  return count * length_ / cost_->time(verified);
}

double Price::floor(std::size_t rows) const {
  if (rows == 0) return 1.0;
  const double price = margin_ * goodput(rows) * cost_->at(rows);
  return std::min(1.0, std::max(least_, price));
}

double Price::settle(std::span<double> survival, std::size_t rows) const {
  const auto price = cost_->settle(survival, rows, margin_ * goodput(rows));
  return price ? std::max(least_, *price) : floor(rows);
}

}  // namespace specgate::policy
