// What a head's confidence in its own tokens is worth, learnt from what was accepted of them.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "logistic.hpp"

namespace specgate::policy {

// For each position a logistic model, fitted online by AdaGrad, of two things: the logit of the
// head's own probability, and the logit of how often that position was accepted of late.
class ConfidenceCalibration {
 public:
  explicit ConfidenceCalibration(std::size_t positions)
      : models_(positions, Logistic{.weights{0.0, 0.8, 0.2}}) {}

  // For each token the chance that it and all before it are accepted; as many as the shortest of
  // the arguments and the positions.
  std::vector<double> survival(std::span<const double> confidence,
                               std::span<const double> accepted) const;

  // What came of a draft: its first `right` tokens were accepted. The others as in `survival`, for
  // the tokens of which it is known what came of them.
  void learn(std::span<const double> confidence, std::span<const double> accepted,
             std::size_t right);

 private:
  // Before anything was seen a head is taken mostly at its word.
  std::vector<Logistic> models_;
};

}  // namespace specgate::policy
