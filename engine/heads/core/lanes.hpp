// Sums of many floats in separate lanes, so that compilers can vectorise them.
#pragma once

#include <cstddef>

namespace specgate::heads {

inline constexpr std::size_t kLanes = 16;

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
