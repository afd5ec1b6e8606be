#include "gate.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace specgate::policy {
namespace {

// Horizon of the averages, in sequences times steps. Long, because the worth of time is a long-run
// average; StepRate follows how fast each request advances now.
constexpr double kHorizon = 256.0;

// Drafted tokens over which expected and accepted tokens are compared, and the weight of the prior
// ratio of 1, in tokens.
constexpr double kDraftedHorizon = 1024.0;
constexpr double kPriorAccepted = 128.0;
constexpr double kLeastRatio = 0.8;
constexpr double kMostRatio = 2.0;

// After so many steps without drafts a few tokens are verified to measure their cost. The first
// probe comes soon, because a wrong prior could keep the gate shut; the interval then doubles.
constexpr std::size_t kProbeSteps = 256;
constexpr std::size_t kFirstProbeSteps = 4;
constexpr std::size_t kLeastProbe = 2;

// After so many steps that all verified drafts, one step drafts nothing. Without it the time of a
// plain step, and the slope above it, would be an extrapolation. The first time comes sooner.
constexpr std::size_t kPlainSteps = 256;
constexpr std::size_t kFirstPlainSteps = 32;

// If the gain over the cost of verification is within so many standard deviations of that cost,
// steps with and without drafts are both made at least once in kOpenSteps.
constexpr double kOpen = 0.5;
constexpr std::size_t kOpenSteps = 16;

// Below this part of `min_acceptance_ratio` as a price, verification is nearly free and rejected
// tokens do not count against a source.
constexpr double kFree = 0.25;

// The distribution of unannounced prompt tokens is approximated by so many equally likely values.
constexpr std::size_t kLikely = 4;

// Above every survival.
constexpr double kNothing = 2.0;

}  // namespace

Gate::Gate(std::vector<Point> steps, std::vector<Point> passes, std::size_t longest,
           std::size_t most_sequences, std::size_t longest_draft, const Limits& limits, double least)
    : steps_(std::move(steps), longest),
      passes_(std::move(passes), most_sequences),
      longest_draft_(longest_draft),
      limits_(limits),
      least_(least),
      floors_{SourceFloor(0.0), SourceFloor(limits.min_acceptance_ratio),
              SourceFloor(limits.min_acceptance_ratio),
              SourceFloor(limits.min_acceptance_ratio)},
      ahead_(steps_.curve()),
      most_idle_(kFirstProbeSteps),
      most_drafting_(kFirstPlainSteps) {}

void Gate::learn(std::size_t sequences, std::size_t drafted, std::size_t emitted, double expected) {
  if (sequences == 0) return;
  const auto count = static_cast<double>(sequences);
  const double share = 1.0 - std::exp(-count / kHorizon);
  length_ += share * (static_cast<double>(emitted) / count - length_);
  drafted_ += share * (static_cast<double>(drafted) / count - drafted_);
  const double keep = std::exp(-static_cast<double>(drafted) / kDraftedHorizon);
  verifying_ += share * ((drafted > 0 ? 1.0 : 0.0) - verifying_);
  expected_ = keep * expected_ + expected;
  accepted_ = keep * accepted_ + static_cast<double>(emitted) - count;
  if (probing_ && drafted > 0) most_idle_ = std::min(2 * most_idle_, kProbeSteps);
  idle_ = drafted > 0 ? 0 : idle_ + 1;
}

void Gate::learn_source(Drafter source, std::size_t drafted, std::size_t accepted) {
  if (drafted == 0) return;
  seen_[source] = true;
  const double ratio = limits_.min_acceptance_ratio;
  const bool keeps_ratio = static_cast<double>(accepted) >= ratio * static_cast<double>(drafted);
  if (keeps_ratio || price_ >= kFree * ratio) floors_[source].learn(drafted, accepted);
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

void Gate::observe_head(std::size_t sequences, double seconds) {
  // Until a step was measured, both curves are in the profile's unit.
  if (steps_.is_measured()) passes_.observe(static_cast<double>(sequences), 0.0, seconds);
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
  const auto sequences = static_cast<double>(load_.sequences);
  const auto context = static_cast<double>(load_.context_tokens);
  return sequences * length_ / (steps_.time(sequences * (1.0 + drafted_), context) +
                           verifying_ * steps_.verification(sequences));
}

double Gate::expected_over_accepted() const {
  const double ratio = (expected_ + kPriorAccepted) / (accepted_ + kPriorAccepted);
  return std::clamp(ratio, kLeastRatio, kMostRatio);
}

double Gate::worth_of_time() const {
  // Requests that wait for this step lose the same time as its sequences and gain nothing.
  const auto delayed = static_cast<double>(load_.sequences + load_.waiting);
  return goodput() * delayed / static_cast<double>(load_.sequences);
}

double Gate::worth() const { return expected_over_accepted() * worth_of_time(); }

double Gate::floor() const {
  if (load_.sequences == 0 || is_limited() || plain_) return 1.0;
  if (probing_) return least_;
  const auto known = static_cast<double>(known_tokens());
  return std::clamp(worth() * ahead_.cheapest(known, reach()), least_, 1.0);
}

double Gate::settle(std::span<double> survival) {
  buys_ = true;
  missing_ = 0.0;
  if (load_.sequences == 0 || is_limited() || plain_) return price_ = kNothing;
  Curve::Terms terms{worth(), floor(), room(), reach()};
  if (probing_) {
    terms.worth = 0.0;
    terms.most = std::min(terms.most, std::max(kLeastProbe, load_.sequences / 2));
  }
  const auto [price, gain] = ahead_.settle(survival, known_tokens(), terms);
  buys_ = probing_ || is_bought(gain);
  return price_ = price.value_or(floor());
}

bool Gate::is_bought(double gain) {
  const auto sequences = static_cast<double>(load_.sequences);
  const double surplus = gain - worth() * steps_.verification(sequences);
  missing_ = std::max(0.0, -surplus);
  const double open = kOpen * worth() * steps_.verification_doubt(sequences);
  if (gain > 0.0 && std::abs(surplus) < open) {
    if (idle_ >= kOpenSteps) return true;
    if (drafting_ >= kOpenSteps) return false;
  }
  return surplus >= 0.0;
}

double Gate::cost_of_pass(std::size_t sequences) const {
  if (load_.sequences == 0) return 0.0;
  // Without `expected_over_accepted`: what a pass adds is compared with a price that contains it.
  return missing_ + worth_of_time() *
                        passes_.time(static_cast<double>(std::max<std::size_t>(sequences, 1)), 0.0);
}

double Gate::reach() const { return static_cast<double>(load_.sequences * longest_draft_); }

std::size_t Gate::room() const { return load_.room_tokens.value_or(SIZE_MAX); }

}  // namespace specgate::policy
