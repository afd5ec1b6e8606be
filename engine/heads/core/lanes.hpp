// Sums and exponentials of many floats, in a form that compilers can vectorise.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numbers>

#include "exponential.hpp"

namespace specgate::heads {

inline constexpr std::size_t kLanes = 16;

// e^x with a relative error of about 1e-6; at most 8.5e37, and 0 below e^-87.
inline float exponential(float x) {
  return power_of_two<std::int32_t>(std::min(x * std::numbers::log2e_v<float>, 126.0f));
}

// The dot product of two vectors.
inline float dot(const float* left, const float* right, std::size_t width) {
  float lanes[kLanes] = {};
  std::size_t i = 0;
  for (; i + kLanes <= width; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      lanes[lane] += left[i + lane] * right[i + lane];
    }
  }
  float sum = 0.0f;
  for (const float lane : lanes) sum += lane;
  for (; i < width; ++i) sum += left[i] * right[i];
  return sum;
}

}  // namespace specgate::heads
