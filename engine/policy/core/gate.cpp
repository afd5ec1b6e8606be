#include "gate.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

namespace specgate::policy {
namespace {

// Horizon of the averages, in sequences times steps. Long, because the worth of time is a long-run
// average.
constexpr double kHorizon = 256.0;

// Of the comparison of stated with accepted tokens: its horizon and the weight of the prior ratio of
// 1, in stated tokens, and the bounds of the ratio.
constexpr double kTrustHorizon = 1024.0;
constexpr double kTrustPrior = 128.0;
constexpr double kLeastTrust = 0.5;
constexpr double kMostTrust = 1.25;

// The distribution of unannounced prompt tokens is approximated by so many equally likely values.
constexpr std::size_t kLikely = 4;

constexpr double kNothing = 2.0;  // above every survival

}  // namespace

Gate::Gate(Costs costs, std::size_t max_batch_size, double least)
    : costs_(std::move(costs)),
      steps_(model_of(costs_.steps)),
      passes_(costs_.passes, costs_.most_sequences),
      max_batch_size_(max_batch_size),
      least_(least),
      ahead_(steps_.curve()) {}

CostModel Gate::model_of(std::vector<Point> steps) const {
  const std::size_t longest = costs_.most_sequences * (1 + costs_.longest_draft);
  return CostModel(std::move(steps), longest, costs_.edges);
}

void Gate::believe(std::vector<Point> measured) {
  passes_.set_unit(measured.front().time / costs_.steps.front().time);
  steps_ = model_of(std::move(measured));
  steps_.set_unit(1.0);
  ahead_ = steps_.curve();
}

void Gate::learn(std::size_t sequences, std::size_t drafted, std::size_t emitted) {
  if (sequences == 0) return;
  const auto count = static_cast<double>(sequences);
  const double share = 1.0 - std::exp(-count / kHorizon);
  length_ += share * (static_cast<double>(emitted) / count - length_);
  drafted_ += share * (static_cast<double>(drafted) / count - drafted_);
  verifying_ += share * ((drafted > 0 ? 1.0 : 0.0) - verifying_);
}

void Gate::learn_trust(double stated, std::size_t accepted) {
  const double keep = std::exp(-stated / kTrustHorizon);
  stated_ = keep * stated_ + stated;
  accepted_ = keep * accepted_ + static_cast<double>(accepted);
}

double Gate::trust() const {
  return std::clamp((accepted_ + kTrustPrior) / (stated_ + kTrustPrior), kLeastTrust, kMostTrust);
}

double Gate::observe_step(std::size_t tokens, std::size_t context_tokens, double seconds,
                          std::size_t verifying) {
  const bool first = !steps_.is_measured();
  const double expected =
      steps_.observe(static_cast<double>(tokens), static_cast<double>(context_tokens), seconds,
                     static_cast<double>(verifying));
  if (first && steps_.is_measured()) passes_.set_unit(steps_.unit());
  return expected;
}

void Gate::observe_head(std::size_t sequences, double seconds) {
  // Until a step was measured, both curves are in the profile's unit.
  if (steps_.is_measured()) passes_.observe(static_cast<double>(sequences), 0.0, seconds);
}

void Gate::begin(const Load& load) {
  expect_prompts(load.read_tokens - std::min(load.read_tokens, load_.prefill_tokens));
  load_ = load;
}

void Gate::expect_prompts(std::size_t unforeseen) {
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

double Gate::worth_of_time() const {
  // Requests that wait for this step lose the same time as its sequences and gain nothing.
  const auto delayed = static_cast<double>(load_.sequences + load_.waiting);
  return goodput() * delayed / static_cast<double>(load_.sequences);
}

double Gate::floor() const {
  if (load_.sequences == 0 || is_limited()) return 1.0;
  const auto known = static_cast<double>(known_tokens());
  return std::clamp(worth_of_time() * ahead_.cheapest(known, reach()), least_, 1.0);
}

double Gate::settle(std::span<double> survival) {
  const auto [price, gain] = buy(survival);
  const double verification = steps_.verification(static_cast<double>(load_.sequences));
  gain_ = gain;
  missing_ = std::max(0.0, worth_of_time() * verification - gain);
  return price_ = price.value_or(floor());
}

Offer Gate::offer(std::span<double> survival) const {
  const auto [price, gain] = buy(survival);
  return {price.value_or(floor()), gain - gain_};
}

Curve::Purchase Gate::buy(std::span<double> survival) const {
  if (load_.sequences == 0 || is_limited()) return {kNothing, 0.0};
  const std::size_t most = load_.room_tokens.value_or(SIZE_MAX);
  return ahead_.settle(survival, known_tokens(), {worth_of_time(), floor(), most, reach()});
}

double Gate::cost_of_pass(std::size_t sequences) const {
  if (load_.sequences == 0) return 0.0;
  const auto rows = static_cast<double>(std::max<std::size_t>(sequences, 1));
  return missing_ + worth_of_time() * passes_.time(rows, 0.0);
}

double Gate::reach() const { return static_cast<double>(load_.sequences * costs_.longest_draft); }

}  // namespace specgate::policy
