#include "forward.hpp"

#include <algorithm>

namespace specgate::policy {
namespace {

// In a try. A pass over all sequences may take a fifth of a step, and a few tell as much.
constexpr std::size_t kTrialSequences = 8;

constexpr int kTries = 4;   // failed tries before the interval grows
constexpr int kRarest = 3;  // longest interval, in units of `probe_steps`

// Temperatures above this count as high. Chat is mostly sampled above it, code below.
constexpr double kWarm = 0.5;

}  // namespace

ForwardDrafter::ForwardDrafter(std::size_t most, bool calibrated, int probe_steps)
    : most_(most), probe_steps_(probe_steps) {
  for (auto& history : history_) history = std::make_shared<DrafterHistory>(most, calibrated);
}

ProposalValue ForwardDrafter::proposal_value(double temperature) const {
  return ProposalValue(history_[temperature > kWarm ? 2 : temperature > 0.0 ? 1 : 0]);
}

bool ForwardDrafter::runs(bool pays) {
  if (pays) {
    idle_ = tries_ = 0;
    return true;
  }
  if (++idle_ < probe_steps_ * std::min(kRarest, 1 + tries_ / kTries)) return false;
  idle_ = 0;
  ++tries_;
  return true;
}

std::vector<std::size_t> ForwardDrafter::trial(std::size_t sequences) const {
  const std::size_t apart = (sequences + kTrialSequences - 1) / kTrialSequences;
  std::vector<std::size_t> chosen;
  if (sequences == 0) return chosen;
  for (auto sequence = static_cast<std::size_t>(tries_) % apart; sequence < sequences; sequence += apart) {
    chosen.push_back(sequence);
  }
  return chosen;
}

}  // namespace specgate::policy
