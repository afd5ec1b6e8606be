#include "confidence.hpp"

#include <algorithm>
#include <cmath>

namespace specgate::policy {
namespace {

constexpr double kStep = 0.1;
// Probabilities are kept so far from 0 and 1: how sure a head is beyond that tells nothing.
constexpr double kEdge = 1e-3;

double logit(double chance) {
  // So written that what is no number counts as no chance.
  const double kept = chance > kEdge ? std::min(chance, 1.0 - kEdge) : kEdge;
  return std::log(kept / (1.0 - kept));
}

double sigmoid(double score) { return 1.0 / (1.0 + std::exp(-std::clamp(score, -30.0, 30.0))); }

}  // namespace

std::vector<double> ConfidenceCalibration::survival(std::span<const double> confidence,
                                                    std::span<const double> accepted) const {
  std::vector<double> chances(std::min({models_.size(), confidence.size(), accepted.size()}));
  double reached = 1.0;
  for (std::size_t at = 0; at < chances.size(); ++at) {
    reached *= models_[at].chance({1.0, logit(confidence[at]), logit(accepted[at])});
    chances[at] = reached;
  }
  return chances;
}

void ConfidenceCalibration::learn(std::span<const double> confidence,
                                  std::span<const double> accepted, std::size_t right) {
  // Behind the first miss nothing is known.
  const auto known =
      std::min({models_.size(), confidence.size(), accepted.size(), right + 1});
  for (std::size_t at = 0; at < known; ++at) {
    models_[at].learn({1.0, logit(confidence[at]), logit(accepted[at])}, at < right);
  }
}

double ConfidenceCalibration::Model::chance(const Features& features) const {
  return sigmoid(weights[0] * features[0] + weights[1] * features[1] + weights[2] * features[2]);
}

void ConfidenceCalibration::Model::learn(const Features& features, bool right) {
  const double error = (right ? 1.0 : 0.0) - chance(features);
  for (std::size_t i = 0; i < features.size(); ++i) {
    const double gradient = error * features[i];
    squares[i] += gradient * gradient;
    weights[i] += kStep * gradient / std::sqrt(squares[i]);
  }
}

}  // namespace specgate::policy
