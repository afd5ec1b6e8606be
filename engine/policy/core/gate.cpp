#include "gate.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace specgate::policy {
namespace {

// Row-steps that the averages look back over. Long: what time is worth is what it brings in the
// mean of copying and writing; how fast each request gets on now, its `Pace` knows.
constexpr double kHorizon = 256.0;

// Drafted tokens over which promises are compared with what came of them, and how many are taken
// for kept before.
constexpr double kPromises = 1024.0;
constexpr double kPriorPromises = 128.0;
constexpr double kLeastPromise = 0.8;
constexpr double kMostPromise = 2.0;

// After so many steps without drafts some are verified to see what that costs now: at first soon,
// since what is believed then may be wrong and keep the gate shut; each time after twice as many.
constexpr std::size_t kProbeSteps = 256;
constexpr std::size_t kFirstProbeSteps = 4;
constexpr std::size_t kLeastProbe = 2;

// After so many steps that all verified drafts, nothing is drafted for one: what the step would take
// without is a guess by then, and the slope above it, too. The first time sooner.
constexpr std::size_t kPlainSteps = 256;
constexpr std::size_t kFirstPlainSteps = 32;

// Where drafts gain or lose less by verification than so many of its standard deviations, steps
// with and without are both made at least once in so many.
constexpr double kOpen = 0.5;
constexpr std::size_t kOpenSteps = 16;

// Of `min_acceptance_ratio`: below such a price verification is nearly free, and refused tokens
// are no loss.
constexpr double kFree = 0.25;

// As many numbers of unforeseen tokens as these stand for those of late.
constexpr std::size_t kLikely = 4;

// Above every survival.
constexpr double kNothing = 2.0;

}  // namespace

Gate::Gate(std::vector<Point> steps, std::vector<Point> passes, std::size_t longest,
           std::size_t most_rows, std::size_t longest_draft, const Limits& limits, double least)
    : steps_(std::move(steps), longest),
      passes_(std::move(passes), most_rows),
      longest_draft_(longest_draft),
      limits_(limits),
      least_(least),
      floors_{SourceFloor(0.0), SourceFloor(limits.min_acceptance_ratio),
              SourceFloor(limits.min_acceptance_ratio),
              SourceFloor(limits.min_acceptance_ratio)},
      ahead_(steps_.curve()),
      most_idle_(kFirstProbeSteps),
      most_drafting_(kFirstPlainSteps) {}

void Gate::learn(std::size_t rows, std::size_t drafted, std::size_t emitted, double promised) {
  if (rows == 0) return;
  const auto count = static_cast<double>(rows);
  const double share = 1.0 - std::exp(-count / kHorizon);
  length_ += share * (static_cast<double>(emitted) / count - length_);
  drafted_ += share * (static_cast<double>(drafted) / count - drafted_);
  const double keep = std::exp(-static_cast<double>(drafted) / kPromises);
  verifying_ += share * ((drafted > 0 ? 1.0 : 0.0) - verifying_);
  promised_ = keep * promised_ + promised;
  kept_ = keep * kept_ + static_cast<double>(emitted) - count;
  if (probing_ && drafted > 0) most_idle_ = std::min(2 * most_idle_, kProbeSteps);
  idle_ = drafted > 0 ? 0 : idle_ + 1;
}

void Gate::learn_source(Drafter source, std::size_t drafted, std::size_t accepted) {
  if (drafted == 0) return;
  seen_[source] = true;
  const double ratio = limits_.min_acceptance_ratio;
  const bool kept = static_cast<double>(accepted) >= ratio * static_cast<double>(drafted);
  if (kept || price_ >= kFree * ratio) floors_[source].learn(drafted, accepted);
}

double Gate::observe_step(std::size_t tokens, std::size_t context_tokens, double seconds,
                          std::size_t verifying) {
  const bool first = !steps_.is_measured();
  const double expected =
      steps_.observe(static_cast<double>(tokens), static_cast<double>(context_tokens), seconds,
                     static_cast<double>(verifying));
  if (first && steps_.is_measured()) passes_.set_unit(steps_.unit());
  drafting_ = verifying == 0 ? 0 : drafting_ + 1;
  return expected;
}

void Gate::observe_head(std::size_t rows, double seconds) {
  // Until a step has shown the unit of the profile, both are in that.
  if (steps_.is_measured()) passes_.observe(static_cast<double>(rows), 0.0, seconds);
}

void Gate::begin(const Load& load) {
  expect(load.read_tokens - std::min(load.read_tokens, load_.prefill_tokens));
  load_ = load;
  for (std::size_t source = 0; source < kDraftersEnd; ++source) {
    if (!std::exchange(seen_[source], false)) floors_[source].wait();
  }
  probing_ = idle_ >= most_idle_ && !is_limited();
  if (probing_) idle_ = 0;
  plain_ = drafting_ >= most_drafting_;
  if (plain_) {
    drafting_ = 0;
    most_drafting_ = kPlainSteps;
  }
}

void Gate::expect(std::size_t unforeseen) {
  unforeseen_[steps_begun_++ % unforeseen_.size()] = static_cast<double>(unforeseen);
  auto sorted = unforeseen_;
  std::sort(sorted.begin(), sorted.end());
  ahead_ = steps_.curve();
  if (sorted.back() == 0.0) return;
  std::array<double, kLikely> likely{};
  constexpr std::size_t kEach = std::tuple_size_v<decltype(sorted)> / kLikely;
  for (std::size_t at = 0; at < sorted.size(); ++at) {
    likely[at / kEach] += sorted[at] / static_cast<double>(kEach);
  }
  ahead_ = ahead_.beside(likely);
}

double Gate::goodput() const {
  const auto rows = static_cast<double>(load_.rows);
  const auto context = static_cast<double>(load_.context_tokens);
  return rows * length_ / (steps_.time(rows * (1.0 + drafted_), context) +
                           verifying_ * steps_.verification(rows));
}

double Gate::promise() const {
  const double ratio = (promised_ + kPriorPromises) / (kept_ + kPriorPromises);
  return std::clamp(ratio, kLeastPromise, kMostPromise);
}

double Gate::worth_of_time() const {
  // Requests that wait for this step lose the same time as its rows, and get nothing for it.
  const auto delayed = static_cast<double>(load_.rows + load_.waiting);
  return goodput() * delayed / static_cast<double>(load_.rows);
}

double Gate::worth() const { return promise() * worth_of_time(); }

double Gate::floor() const {
  if (load_.rows == 0 || is_limited() || plain_) return 1.0;
  if (probing_) return least_;
  const auto known = static_cast<double>(known_tokens());
  return std::clamp(worth() * ahead_.cheapest(known, reach()), least_, 1.0);
}

double Gate::settle(std::span<double> survival) {
  buys_ = true;
  missing_ = 0.0;
  if (load_.rows == 0 || is_limited() || plain_) return price_ = kNothing;
  Curve::Terms terms{worth(), floor(), room(), reach()};
  if (probing_) {
    terms.worth = 0.0;
    terms.most = std::min(terms.most, std::max(kLeastProbe, load_.rows / 2));
  }
  const auto [price, gain] = ahead_.settle(survival, known_tokens(), terms);
  buys_ = probing_ || is_bought(gain);
  return price_ = price.value_or(floor());
}

bool Gate::is_bought(double gain) {
  const auto rows = static_cast<double>(load_.rows);
  const double surplus = gain - worth() * steps_.verification(rows);
  missing_ = std::max(0.0, -surplus);
  const double open = kOpen * worth() * steps_.verification_doubt(rows);
  if (gain > 0.0 && std::abs(surplus) < open) {
    if (idle_ >= kOpenSteps) return true;
    if (drafting_ >= kOpenSteps) return false;
  }
  return surplus >= 0.0;
}

double Gate::cost_of_pass(std::size_t rows) const {
  if (load_.rows == 0) return 0.0;
  // Without what promises were worth: what a pass brings is judged at a price that has it.
  return missing_ + worth_of_time() *
                        passes_.time(static_cast<double>(std::max<std::size_t>(rows, 1)), 0.0);
}

double Gate::reach() const { return static_cast<double>(load_.rows * longest_draft_); }

std::size_t Gate::room() const { return load_.room_tokens.value_or(SIZE_MAX); }

}  // namespace specgate::policy
