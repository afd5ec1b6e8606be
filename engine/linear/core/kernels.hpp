// What multiplies a panel of a weight with rows, for each set of instructions.
#pragma once

#include <cstddef>

namespace specgate::linear {

// Rows that pass a panel while it is in the first cache.
inline constexpr std::size_t kMostRows = 96;

// A panel is `width` rows of the weight, laid out so that the values that one input is multiplied
// with are neighbours: (in, width).
struct Kernel {
  std::size_t width;
  // Writes the sums (count, width) of up to kMostRows rows, which are `stride` apart. Each is added
  // up in the order of the inputs, however many rows there are.
  void (*multiply)(const float* panel, std::size_t in, const float* rows, std::size_t stride,
                   std::size_t count, float* sums);
};

// The best that this processor has; null where it has none.
const Kernel* find_kernel();

// Null where they were not compiled in.
extern const Kernel* const kAvx2;
extern const Kernel* const kAvx512;

}  // namespace specgate::linear
