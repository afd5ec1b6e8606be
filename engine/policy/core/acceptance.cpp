#include "acceptance.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace specgate::policy {
namespace {

// Weight of the prior, in observations.
constexpr double kPrior = 4.0;
// An outcome loses 63 % of its weight after 64 newer ones at the same position.
constexpr double kFade = 1.0 - 1.0 / 64.0;

}  // namespace

PositionAcceptance::PositionAcceptance(std::size_t positions,
                                       std::shared_ptr<PositionAcceptance> parent, double start)
    : parent_(std::move(parent)), start_(start), outcomes_(positions) {
  if (parent_ && parent_->positions() != positions) {
    throw std::invalid_argument("parent: must have the same number of positions");
  }
}

void PositionAcceptance::learn(std::size_t drafted, std::size_t accepted) {
  const std::size_t known = std::min({accepted + 1, drafted, positions()});
  for (std::size_t at = 0; at < known; ++at) {
    Outcomes& outcomes = outcomes_[at];
    outcomes.seen = outcomes.seen * kFade + 1.0;
    outcomes.accepted = outcomes.accepted * kFade + (at < accepted ? 1.0 : 0.0);
  }
  if (parent_) parent_->learn(drafted, accepted);
}

double PositionAcceptance::rate(std::size_t at) const {
  const double prior = parent_ ? parent_->rate(at) : start_;
  return (outcomes_[at].accepted + kPrior * prior) / (outcomes_[at].seen + kPrior);
}

std::vector<double> PositionAcceptance::rates() const {
  std::vector<double> rates(positions());
  for (std::size_t at = 0; at < rates.size(); ++at) rates[at] = rate(at);
  return rates;
}

std::vector<double> PositionAcceptance::survival() const {
  std::vector<double> chances = rates();
  for (std::size_t at = 1; at < chances.size(); ++at) chances[at] *= chances[at - 1];
  return chances;
}

}  // namespace specgate::policy
