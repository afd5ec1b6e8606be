#include "confidence.hpp"

#include <algorithm>

namespace specgate::policy {

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
  // Nothing is known about tokens after the first rejected one.
  const auto known =
      std::min({models_.size(), confidence.size(), accepted.size(), right + 1});
  for (std::size_t at = 0; at < known; ++at) {
    models_[at].learn({1.0, logit(confidence[at]), logit(accepted[at])}, at < right);
  }
}

}  // namespace specgate::policy
