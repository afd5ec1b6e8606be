// Calibrates the probabilities that a drafter gives its own tokens.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "logistic.hpp"

namespace specgate::policy {

// A logistic model for each position, fitted online with AdaGrad. Its features are the logit of the
// drafter's own probability and the logit of the position's recent acceptance rate.
class ConfidenceCalibration {
 public:
  explicit ConfidenceCalibration(std::size_t positions)
      : models_(positions, Logistic{.weights{0.0, 0.8, 0.2}}) {}

  // Returns for each token the probability that it and all before it are accepted. The result is as
  // long as the shortest of the arguments and the number of positions.
  std::vector<double> survival(std::span<const double> confidence,
                               std::span<const double> accepted) const;

  // Takes in the outcome of a draft: its first `right` tokens were accepted. `confidence` and
  // `accepted` are as in `survival`, for the tokens whose outcome is known.
  void learn(std::span<const double> confidence, std::span<const double> accepted,
             std::size_t right);

 private:
  // The prior weights trust the drafter's own probability most.
  std::vector<Logistic> models_;
};

}  // namespace specgate::policy
