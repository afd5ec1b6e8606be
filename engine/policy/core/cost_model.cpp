#include "cost_model.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace specgate::policy {
namespace {

// What the prior believes of the profile: standard deviations of logarithms.
constexpr double kScale = 1.0;          // of all of it together
constexpr double kShape = 0.3;          // of a knot beside that
constexpr double kOctaves = 2.0;        // knots that far apart share 0.6 of it
constexpr double kRough = 0.05;         // and of a knot alone
constexpr double kRoughOctaves = 0.5;   // nearly: those that far apart share 1/e of it
constexpr double kContext = 1.5;        // of what a token of context costs
// Standard deviations, as shares of a plain step: of what verification adds for one row, and of
// how that differs for sixteen.
constexpr double kVerify = 0.15;
constexpr double kVerifyMany = 0.1;
// Knots are an octave apart up to 32 tokens, and a quarter of one behind them: there a GPU's curve
// has its knee, and between two knots far apart it would be taken for a slope.
constexpr double kFine = 5.0;
constexpr double kPerOctave = 4.0;

// Of a step of one token: what KV costs an 8B model on an H100; a 70B model on four a third of it.
constexpr double kContextShare = 6e-6;

// What is forgotten a step, in variances of a step's noise: the scale follows in some ten steps,
// the shape in a hundred (a gain of 0.01, as forgetting with 0.99 has it).
constexpr double kScaleDrift = 1e-2;
constexpr double kShapeDrift = 1e-4;

constexpr double kFirstNoise = 0.1 * 0.1;
constexpr double kLeastNoise = 0.01 * 0.01;
constexpr double kMostNoise = 0.3 * 0.3;
constexpr double kNoiseRate = 0.02;

// A step that is off by more than so many standard deviations counts as if it were that far off ...
constexpr double kSurprise = 3.0;
// ... unless surprises to the same side come in a row (three; or every second step, five): then it
// is the machine that has changed, and the filter doubts what it knew.
constexpr double kStreakFade = 0.7;
constexpr double kStreak = 1.8;
constexpr double kDoubtScale = 0.25;
constexpr double kDoubtShape = 0.05;

// How fast the largest step is forgotten, up to which the curve is taken from what was measured;
// and how much of its slope there is believed to go on behind it, as the least.
constexpr double kSeenFade = 0.999;
constexpr double kGoesOn = 0.85;

// How much of w is in the verification of so many rows.
double many(double rows) { return std::log2(std::max(1.0, rows)) / 4.0; }

// Where a knot is, in octaves above one token.
double octave(std::size_t knot) {
  const auto number = static_cast<double>(knot);
  return number <= kFine ? number : kFine + (number - kFine) / kPerOctave;
}

}  // namespace

CostModel::CostModel(std::vector<Point> profile, std::size_t longest)
    : profile_(std::move(profile)),
      context_unit_(kContextShare * profile_.front().time),
      noise_(kFirstNoise),
      curve_(profile_) {
  const double most = std::log2(std::max(2.0, static_cast<double>(longest)));
  while (knots_ < kMostKnots && (knots_ < 2 || octave(knots_ - 1) < most)) ++knots_;
  states_ = knots_ + 3;
  for (std::size_t i = 0; i < knots_; ++i) {
    for (std::size_t j = 0; j < knots_; ++j) {
      const double apart = std::abs(octave(i) - octave(j));
      // Smooth, so that steps of a few sizes tell the slope between them in spite of their noise.
      shape_[i][j] = kShape * kShape * std::exp(-0.5 * std::pow(apart / kOctaves, 2)) +
                     kRough * kRough * std::exp(-apart / kRoughOctaves);
    }
  }
  shape_[knots_][knots_] = kContext * kContext;
  shape_[knots_ + 1][knots_ + 1] = kVerify * kVerify;
  shape_[knots_ + 2][knots_ + 2] = kVerifyMany * kVerifyMany;
  drift(kScale * kScale, 1.0);
  points_ = profile_;
  for (std::size_t knot = 0; knot < knots_; ++knot) {
    points_.push_back({std::round(std::exp2(octave(knot))), 0.0});
  }
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
  seen_ = std::max(tokens, kSeenFade * seen_);
  // Where fewer tokens are believed to take longer, what they take counts, here as in `curve`: else
  // tokens could be ever cheaper and verification ever dearer, in steps that always have both.
  const double counts = highest_up_to(tokens);
  const double rows_count = highest_up_to(verifying);
  const double alone = base(counts);
  const double plain = verifying >= 1.0 ? base(rows_count) : 0.0;
  const double added = plain * std::max(0.0, verified(verifying));
  const double expected = alone + of_context(context_tokens) + added;
  const Place at = place(counts);
  const Place rows = place(rows_count);
  // By how much the logarithm of the time rises with each state.
  const std::array<std::pair<std::size_t, double>, 7> seen{{
      {at.knot, (1.0 - at.next) * alone / expected},
      {std::min(at.knot + 1, knots_ - 1), at.next * alone / expected},
      {knots_, of_context(context_tokens) / expected},
      {rows.knot, (1.0 - rows.next) * added / expected},
      {std::min(rows.knot + 1, knots_ - 1), rows.next * added / expected},
      {knots_ + 1, plain / expected},
      {knots_ + 2, many(verifying) * plain / expected},
  }};

  forget();
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

double CostModel::verification(double rows) const {
  return curve_.time(rows) * std::max(0.0, verified(rows));
}

double CostModel::verification_doubt(double rows) const {
  const std::size_t v = knots_ + 1;
  const std::size_t w = knots_ + 2;
  const double share = many(rows);
  const double variance =
      spread_[v][v] + share * (2.0 * spread_[v][w] + share * spread_[w][w]);
  return curve_.time(rows) * std::sqrt(std::max(0.0, variance));
}

void CostModel::set_unit(double seconds) {
  unit_ = seconds;
  for (Point& point : profile_) point.time *= seconds;
  context_unit_ *= seconds;
  rebuild();
}

CostModel::Place CostModel::place(double tokens) const {
  const double octaves = std::log2(std::max(1.0, tokens));
  // In knots: as many as octaves at first, four times as many from `kFine` on.
  const double knots = octaves + (kPerOctave - 1.0) * std::max(0.0, octaves - kFine);
  if (knots >= static_cast<double>(knots_ - 1)) return {knots_ - 1, 0.0};
  return {static_cast<std::size_t>(knots), knots - std::floor(knots)};
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
  return profile(tokens) * std::exp(correction(tokens));
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

double CostModel::verified(double rows) const {
  return state_[knots_ + 1] + many(rows) * state_[knots_ + 2];
}

void CostModel::forget() {
  // For the shape a part of its prior that is as large, for one knot, as its drift.
  drift(kScaleDrift * noise_, kShapeDrift * noise_ / (kShape * kShape));
}

void CostModel::doubt() { drift(kDoubtScale * kScale * kScale, kDoubtShape); }

void CostModel::drift(double scale, double shape) {
  for (std::size_t i = 0; i < states_; ++i) {
    for (std::size_t j = 0; j < states_; ++j) {
      // All but v and w, which are shares of it, have the scale of times in them.
      const bool scaled = i <= knots_ && j <= knots_;
      spread_[i][j] += (scaled ? scale : 0.0) + shape * shape_[i][j];
    }
  }
  cap();
}

// What is never seen must not become uncertain without bound: nothing is less so than at first.
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
  // Behind what was seen lately the curve is a guess. One that is flat would be bought, seen to be
  // wrong, and forgotten again.
  const auto unseen = std::find_if(points_.begin(), points_.end(), [&](const Point& point) {
    return is_measured() && point.at > std::max(2.0, seen_);
  });
  if (unseen != points_.end()) {
    const Curve known(std::span<const Point>(points_.begin(), unseen));
    const double end = (unseen - 1)->at;
    const double octave = std::max(1.0, end / 2.0);
    const double slope = kGoesOn * (known.time(end) - known.time(end - octave)) / octave;
    for (auto point = unseen; point != points_.end(); ++point) {
      const Point& before = *(point - 1);
      point->time = std::max(point->time, before.time + slope * (point->at - before.at));
    }
  }
  curve_ = Curve(points_);
}

}  // namespace specgate::policy
