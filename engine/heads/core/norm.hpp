// An RMS norm with weight and bias: x / sqrt(mean(x^2) + 1e-6) * weight + bias.
#pragma once

#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include "lanes.hpp"

namespace specgate::heads {

class Norm {
 public:
  // Weight and bias have the same width; an empty bias means none.
  Norm(std::vector<float> weight, std::vector<float> bias)
      : weight_(std::move(weight)), bias_(std::move(bias)) {
    bias_.resize(weight_.size());
  }

  std::size_t width() const { return weight_.size(); }

  // Normalises each row; input and output may be the same.
  void apply(const float* inputs, std::size_t rows, float* outputs) const {
    const std::size_t width = weight_.size();
    for (std::size_t row = 0; row < rows; ++row, inputs += width, outputs += width) {
      const float mean = dot(inputs, inputs, width) / static_cast<float>(width);
      const float scale = 1.0f / std::sqrt(mean + kEpsilon);
      for (std::size_t i = 0; i < width; ++i) {
        outputs[i] = inputs[i] * scale * weight_[i] + bias_[i];
      }
    }
  }

 private:
  static constexpr float kEpsilon = 1e-6f;

  std::vector<float> weight_;
  std::vector<float> bias_;
};

}  // namespace specgate::heads
