#include "cost_model.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace specgate::policy {
namespace {

// Standard deviations of the prior, of logarithms.
constexpr double kScale = 1.0;         // common to all of the profile
constexpr double kShape = 0.3;         // of a knot, smooth part
constexpr double kOctaves = 2.0;       // at this distance the smooth part correlates by 0.6
constexpr double kRough = 0.05;        // of a knot, rough part
constexpr double kRoughOctaves = 0.5;  // at this distance the rough part correlates by 1/e
constexpr double kContext = 1.5;       // of the cost of a context token
constexpr double kVerify = 0.15;       // of verification, as a share of a plain step

// Cost of a context token relative to a step of one token: the KV cache of an 8B model on an H100. A
// 70B model on four of them has a third of it.
constexpr double kContextShare = 6e-6;

// Variance added per step, in variances of a step's noise. The scale follows within some ten steps,
// the shape within a hundred (a gain of 0.01, like a forgetting factor of 0.99).
constexpr double kScaleDrift = 1e-2;
constexpr double kShapeDrift = 1e-4;

// Verification is measured only while something is verified. Its share fades in steps that verify
// nothing, so one slow period does not shut the gate for good: it then tries again.
constexpr double kVerifyFade = 1.0 / 128.0;

constexpr double kFirstNoise = 0.1 * 0.1;
constexpr double kLeastNoise = 0.01 * 0.01;
constexpr double kMostNoise = 0.3 * 0.3;
constexpr double kNoiseRate = 0.02;

// An error of more than this many standard deviations is clamped ...
constexpr double kSurprise = 3.0;
// ... unless such errors repeat in the same direction: three in a row, or five in every second step.
// Then the machine has changed, and the filter adds variance.
constexpr double kStreakFade = 0.7;
constexpr double kStreak = 1.8;
constexpr double kDoubtScale = 0.25;
constexpr double kDoubtShape = 0.05;

}  // namespace

CostModel::CostModel(std::vector<Point> profile, std::size_t longest,
                     std::span<const std::size_t> edges)
    : profile_(std::move(profile)),
      edges_(edges.begin(), edges.end()),
      context_unit_(kContextShare * profile_.front().time),
      noise_(kFirstNoise),
      curve_(profile_) {
  const double most = std::log2(std::max(2.0, static_cast<double>(longest)));
  while (knots_ < kMostKnots && (knots_ < 2 || static_cast<double>(knots_ - 1) < most)) ++knots_;
  states_ = knots_ + 2;
  for (std::size_t i = 0; i < knots_; ++i) {
    for (std::size_t j = 0; j < knots_; ++j) {
      const double apart = std::abs(static_cast<double>(i) - static_cast<double>(j));
      // Smooth, so that noisy steps of a few sizes still determine the slope between them.
      shape_[i][j] = kShape * kShape * std::exp(-0.5 * std::pow(apart / kOctaves, 2)) +
                     kRough * kRough * std::exp(-apart / kRoughOctaves);
    }
  }
  shape_[knots_][knots_] = kContext * kContext;
  shape_[knots_ + 1][knots_ + 1] = kVerify * kVerify;
  drift(kScale * kScale, 1.0);
  points_ = profile_;
  for (std::size_t knot = 0; knot < knots_; ++knot) {
    points_.push_back({std::exp2(static_cast<double>(knot)), 0.0});
  }
  // A stair: flat up to an edge, and one token more costs the next edge's time.
  for (const double edge : edges_) points_.insert(points_.end(), {{edge, 0.0}, {edge + 1.0, 0.0}});
  std::sort(points_.begin(), points_.end(),
            [](const Point& a, const Point& b) { return a.at < b.at; });
  const auto same = [](const Point& a, const Point& b) { return a.at == b.at; };
  points_.erase(std::unique(points_.begin(), points_.end(), same), points_.end());
  based_ = points_;
  rebuild();
}

double CostModel::time(double tokens, double context_tokens) const {
  return curve_.time(tokens) + of_context(context_tokens);
}

double CostModel::observe(double tokens, double context_tokens, double seconds, double verifying) {
  if (!(seconds > 0.0) || !std::isfinite(seconds) || !(tokens >= 1.0) || !(context_tokens >= 0.0) ||
      !(verifying >= 0.0)) {
    return 0.0;
  }
  if (!is_measured()) set_unit(seconds / (base(tokens) + of_context(context_tokens)));
  // Where fewer tokens are estimated to take longer, their time counts, as in `curve`. Otherwise, if
  // every step verifies drafts, the cost could shift from tokens to verification without bound.
  const double counts = highest_up_to(tokens);
  const double sequences_count = highest_up_to(verifying);
  const double alone = base(counts);
  const double plain = verifying >= 1.0 ? base(sequences_count) : 0.0;
  const double added = plain * std::max(0.0, state_[knots_ + 1]);
  const double expected = alone + of_context(context_tokens) + added;
  const Place at = place(padded(counts));
  const Place sequences = place(padded(sequences_count));
  // Derivative of the logarithm of the time with respect to each state.
  const std::array<std::pair<std::size_t, double>, 6> seen{{
      {at.knot, (1.0 - at.next) * alone / expected},
      {std::min(at.knot + 1, knots_ - 1), at.next * alone / expected},
      {knots_, of_context(context_tokens) / expected},
      {sequences.knot, (1.0 - sequences.next) * added / expected},
      {std::min(sequences.knot + 1, knots_ - 1), sequences.next * added / expected},
      {knots_ + 1, plain / expected},
  }};

  forget();
  if (verifying < 1.0) state_[knots_ + 1] *= 1.0 - kVerifyFade;
  Row across{};
  double variance = 0.0;
  const auto look = [&] {
    across.fill(0.0);
    for (std::size_t i = 0; i < states_; ++i) {
      for (const auto& [j, weight] : seen) across[i] += spread_[i][j] * weight;
    }
    variance = noise_;
    for (const auto& [j, weight] : seen) variance += across[j] * weight;
  };
  look();
  double error = std::log(seconds / expected);
  const double bound = kSurprise * std::sqrt(variance);
  const bool surprised = std::abs(error) > bound;
  streak_ = kStreakFade * streak_ + (surprised ? std::copysign(1.0, error) : 0.0);
  if (surprised && std::abs(streak_) > kStreak) {
    doubt();
    look();
  } else {
    error = std::clamp(error, -bound, bound);
    const double mine = std::max(0.0, error * error - (variance - noise_));
    noise_ = std::clamp(noise_ + kNoiseRate * (mine - noise_), kLeastNoise, kMostNoise);
  }
  for (std::size_t i = 0; i < states_; ++i) {
    const double gain = across[i] / variance;
    state_[i] += gain * error;
    for (std::size_t j = 0; j < states_; ++j) spread_[i][j] -= gain * across[j];
  }
  rebuild();
  return expected;
}

double CostModel::verification(double sequences) const {
  return curve_.time(sequences) * std::max(0.0, state_[knots_ + 1]);
}

void CostModel::set_unit(double seconds) {
  unit_ = seconds;
  for (Point& point : profile_) point.time *= seconds;
  context_unit_ *= seconds;
  rebuild();
}

CostModel::Place CostModel::place(double tokens) const {
  const double octaves = std::log2(std::max(1.0, tokens));
  if (octaves >= static_cast<double>(knots_ - 1)) return {knots_ - 1, 0.0};
  return {static_cast<std::size_t>(octaves), octaves - std::floor(octaves)};
}

double CostModel::padded(double tokens) const {
  const auto edge = std::lower_bound(edges_.begin(), edges_.end(), tokens);
  return edge == edges_.end() ? tokens : *edge;
}

double CostModel::profile(double tokens) const {
  const auto behind = std::upper_bound(
      profile_.begin(), profile_.end(), tokens,
      [](double value, const Point& point) { return value < point.at; });
  if (behind == profile_.begin()) return profile_.front().time;
  const bool beyond = behind == profile_.end();
  if (beyond && profile_.size() == 1) return profile_.front().time;
  const Point& b = beyond ? profile_.back() : *behind;
  const Point& a = *(beyond ? behind - 2 : behind - 1);
  return a.time + (tokens - a.at) * (b.time - a.time) / (b.at - a.at);
}

double CostModel::correction(double tokens) const {
  const Place at = place(tokens);
  const double here = state_[at.knot];
  return at.next > 0.0 ? here + at.next * (state_[at.knot + 1] - here) : here;
}

double CostModel::base(double tokens) const {
  const double computed = padded(tokens);
  return profile(computed) * std::exp(correction(computed));
}

double CostModel::highest_up_to(double tokens) const {
  double at = tokens;
  double most = base(tokens);
  for (const Point& point : based_) {
    if (point.at >= tokens) break;
    if (point.time > most) {
      most = point.time;
      at = point.at;
    }
  }
  return at;
}

double CostModel::of_context(double context_tokens) const {
  return context_tokens * context_unit_ * std::exp(state_[knots_]);
}

void CostModel::forget() {
  // The shape drifts by a part of its prior covariance that gives each knot its drift.
  drift(kScaleDrift * noise_, kShapeDrift * noise_ / (kShape * kShape));
}

void CostModel::doubt() { drift(kDoubtScale * kScale * kScale, kDoubtShape); }

void CostModel::drift(double scale, double shape) {
  for (std::size_t i = 0; i < states_; ++i) {
    for (std::size_t j = 0; j < states_; ++j) {
      // v is a share of a step, so the common scale does not affect it.
      const bool scaled = i <= knots_ && j <= knots_;
      spread_[i][j] += (scaled ? scale : 0.0) + shape * shape_[i][j];
    }
  }
  cap();
}

// Bounds the variance by that of the prior, for states that are never observed.
void CostModel::cap() {
  for (std::size_t i = 0; i < states_; ++i) {
    const double most = shape_[i][i] + (i <= knots_ ? kScale * kScale : 0.0);
    if (spread_[i][i] <= most) continue;
    const double shrink = std::sqrt(most / spread_[i][i]);
    for (std::size_t j = 0; j < states_; ++j) {
      spread_[i][j] *= shrink;
      spread_[j][i] *= shrink;
    }
  }
}

void CostModel::rebuild() {
  for (Point& point : based_) point.time = base(point.at);
  double highest = 0.0;
  std::transform(based_.begin(), based_.end(), points_.begin(), [&](const Point& point) {
    return Point{point.at, highest = std::max(highest, point.time)};
  });
  curve_ = Curve(points_);
}

}  // namespace specgate::policy
