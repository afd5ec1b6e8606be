#include "forward.hpp"

#include <algorithm>

namespace specgate::policy {
namespace {

// Of a try: the pass of all rows may take a fifth of a step, and a few rows tell as much.
constexpr std::size_t kTrialRows = 8;

constexpr int kTries = 4;     // in vain, before they become rarer
constexpr int kRarest = 3;    // times `probe_steps`

// Temperature from which text is sampled freely, as chat is; code is mostly sampled below it.
constexpr double kWarm = 0.5;

}  // namespace

ForwardDrafter::ForwardDrafter(std::size_t most, bool calibrated, int probe_steps)
    : most_(most), probe_steps_(probe_steps) {
  for (auto& overall : overall_) overall = std::make_shared<Overall>(most, calibrated);
}

Guesser ForwardDrafter::guesser(double temperature) const {
  return Guesser(overall_[temperature > kWarm ? 2 : temperature > 0.0 ? 1 : 0]);
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

std::vector<std::size_t> ForwardDrafter::trial(std::size_t rows) const {
  const std::size_t apart = (rows + kTrialRows - 1) / kTrialRows;
  std::vector<std::size_t> chosen;
  if (rows == 0) return chosen;
  for (auto row = static_cast<std::size_t>(tries_) % apart; row < rows; row += apart) {
    chosen.push_back(row);
  }
  return chosen;
}

}  // namespace specgate::policy
