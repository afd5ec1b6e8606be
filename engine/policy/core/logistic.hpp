// A logistic model of three features, fitted online with AdaGrad (Duchi, Hazan and Singer, JMLR
// 2011).
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

namespace specgate::policy {

// Probabilities are clamped to this distance from 0 and 1. More extreme values carry no information.
inline constexpr double kEdge = 1e-3;

inline double logit(double chance) {
  // Written so that NaN counts as probability 0.
  const double kept = chance > kEdge ? std::min(chance, 1.0 - kEdge) : kEdge;
  return std::log(kept / (1.0 - kept));
}

struct Logistic {
  using Features = std::array<double, 3>;

  Features weights;
  Features squares{1.0, 1.0, 1.0};  // sums of squared gradients

  double chance(const Features& features) const {
    double score = 0.0;
    for (std::size_t i = 0; i < features.size(); ++i) score += weights[i] * features[i];
    return 1.0 / (1.0 + std::exp(-std::clamp(score, -30.0, 30.0)));
  }

  void learn(const Features& features, bool right) {
    constexpr double kStep = 0.1;
    const double error = (right ? 1.0 : 0.0) - chance(features);
    for (std::size_t i = 0; i < features.size(); ++i) {
      const double gradient = error * features[i];
      squares[i] += gradient * gradient;
      weights[i] += kStep * gradient / std::sqrt(squares[i]);
    }
  }
};

}  // namespace specgate::policy
