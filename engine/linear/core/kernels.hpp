// What multiplies a panel of a weight with rows, for each set of instructions.
#pragma once

#include <cstddef>

#include "bfloat16.hpp"

namespace specgate::linear {

// Rows that pass a panel while it is in the caches.
inline constexpr std::size_t kMostRows = 96;
inline constexpr std::size_t kMostWidth = 32;

// Writes the sums (count, width) of a panel and up to kMostRows rows, which are `stride` apart. Each
// is added up in float32, in the order of the inputs, however many rows there are.
template <class Number>
using MultiplyPanel = void (*)(const Number* panel, std::size_t in, const float* rows,
                               std::size_t stride, std::size_t count, float* sums);

// A panel is `width` rows of the weight, laid out so that the values that one input is multiplied
// with are neighbours: (in, width). Where they are bfloat16 those of the first half of the rows
// alternate with those of the second, so that a pair makes two float32 by a shift and a mask.
struct Kernel {
  std::size_t width;
  MultiplyPanel<float> floats;
  MultiplyPanel<BFloat16> halves;
};

// The best that this processor has; null where it has none.
const Kernel* find_kernel();

// Null where they were not compiled in.
extern const Kernel* const kAvx2;
extern const Kernel* const kAvx512;

}  // namespace specgate::linear
