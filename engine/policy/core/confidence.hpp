// What a head's confidence in its own tokens is worth, learnt from what was accepted of them.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

namespace specgate::policy {

// For each position a logistic model, fitted online by AdaGrad, of two things: the logit of the
// head's own probability, and the logit of how often that position was accepted of late.
class ConfidenceCalibration {
 public:
  explicit ConfidenceCalibration(std::size_t positions) : models_(positions) {}

  // For each token the chance that it and all before it are accepted; as many as the shortest of
  // the arguments and the positions.
  std::vector<double> survival(std::span<const double> confidence,
                               std::span<const double> accepted) const;

  // What came of a draft: its first `right` tokens were accepted. The others as in `survival`, for
  // the tokens of which it is known what came of them.
  void learn(std::span<const double> confidence, std::span<const double> accepted,
             std::size_t right);

 private:
  using Features = std::array<double, 3>;

  struct Model {
    // Before anything was seen a head is taken mostly at its word.
    Features weights{0.0, 0.8, 0.2};
    Features squares{1.0, 1.0, 1.0};

    double chance(const Features& features) const;
    void learn(const Features& features, bool right);
  };

  std::vector<Model> models_;
};

}  // namespace specgate::policy
