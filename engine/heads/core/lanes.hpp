// Sums of many floats, in lanes: so the compiler may add up several at once.
#pragma once

#include <cstddef>

namespace specgate::heads {

inline constexpr std::size_t kLanes = 16;

// The sum of products of two vectors.
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
