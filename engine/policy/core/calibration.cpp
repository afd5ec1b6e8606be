#include "calibration.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace specgate::policy {
namespace {

constexpr double kEdge = 1e-3;  // probabilities keep this distance from 0 and 1

constexpr double kStep = 0.1;          // of a logistic model's first outcome
constexpr double kMostWeight = 2.0;    // of a feature
constexpr double kSquaresKept = 1.0 - 1.0 / 256.0;  // per outcome: bounds the memory

constexpr double kPrior = 4.0;  // weight of the prior of a rate, in outcomes
constexpr double kStart = 0.5;  // that prior, without a parent
// An outcome loses 63 % of its weight after 64 newer ones at the same position.
constexpr double kFade = 1.0 - 1.0 / 64.0;

// A drafter's own probability is trusted most at first.
constexpr Logistic kTrusting{.weights{0.0, 0.8, 0.2}};

}  // namespace

double logit(double chance) {
  const double kept = chance > kEdge ? std::min(chance, 1.0 - kEdge) : kEdge;
  return std::log(kept / (1.0 - kept));
}

double Logistic::chance(const Features& features) const {
  double score = 0.0;
  for (std::size_t i = 0; i < features.size(); ++i) score += weights[i] * features[i];
  return 1.0 / (1.0 + std::exp(-score));
}

void Logistic::learn(const Features& features, bool right) {
  const double error = (right ? 1.0 : 0.0) - chance(features);
  for (std::size_t i = 0; i < features.size(); ++i) {
    const double gradient = error * features[i];
    squares[i] = std::max(1.0, kSquaresKept * squares[i] + gradient * gradient);
    const double moved = weights[i] + kStep * gradient / std::sqrt(squares[i]);
    weights[i] = std::clamp(moved, -kMostWeight, kMostWeight);
  }
}

PositionAcceptance::PositionAcceptance(std::size_t positions,
                                       std::shared_ptr<PositionAcceptance> parent)
    : parent_(std::move(parent)), outcomes_(positions) {}

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
  const double prior = parent_ ? parent_->rate(at) : kStart;
  return (outcomes_[at].accepted + kPrior * prior) / (outcomes_[at].seen + kPrior);
}

std::vector<double> PositionAcceptance::rates() const {
  std::vector<double> rates(positions());
  for (std::size_t at = 0; at < rates.size(); ++at) rates[at] = rate(at);
  return rates;
}

ConfidenceCalibration::ConfidenceCalibration(std::size_t positions)
    : models_(positions, kTrusting) {}

std::vector<double> ConfidenceCalibration::survival(std::span<const double> confidence,
                                                    std::span<const double> rates) const {
  std::vector<double> chances(std::min({models_.size(), confidence.size(), rates.size()}));
  double reached = 1.0;
  for (std::size_t at = 0; at < chances.size(); ++at) {
    reached *= models_[at].chance({1.0, logit(confidence[at]), logit(rates[at])});
    chances[at] = reached;
  }
  return chances;
}

void ConfidenceCalibration::learn(std::span<const double> confidence, std::span<const double> rates,
                                  std::size_t right) {
  // Nothing is known about tokens after the first rejected one.
  const auto known = std::min({models_.size(), confidence.size(), rates.size(), right + 1});
  for (std::size_t at = 0; at < known; ++at) {
    models_[at].learn({1.0, logit(confidence[at]), logit(rates[at])}, at < right);
  }
}

}  // namespace specgate::policy
