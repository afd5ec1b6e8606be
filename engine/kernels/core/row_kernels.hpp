// The kernels for what is done with single rows between and after a decoder's products, for each
// instruction set.
#pragma once

#include <cstddef>

#include "bfloat16.hpp"

namespace specgate::kernels {

inline constexpr std::size_t kRowUnit = 16;

// Results are rounded to `Number` where the modules of vLLM round theirs; between, numbers are
// float32. Each sum has one order. Sizes are multiples of kRowUnit, but for `greatest`.
template <class Number>
struct RowKernel {
  const char* name;
  // Adds `more` to a row unless it is null. Writes the row's root mean square norm times a weight
  // (arXiv 1910.07467); `to` may be the row if nothing is added.
  void (*norm)(Number* row, const Number* more, const Number* weight, float epsilon,
               std::size_t size, Number* to);
  // Rotates a head (dim,) in place by the cosines (dim / 2,) and sines (dim / 2,) of a position;
  // number i is paired with number i + dim / 2 (arXiv 2104.09864, in the order of GPT-NeoX).
  void (*rotate)(Number* head, const Number* angles, std::size_t dim);
  // Writes silu(gates) * values.
  void (*gate)(const Number* gates, const Number* values, std::size_t size, Number* to);
  // The index of the first of the greatest numbers, of at least kRowUnit. NaN counts as the least.
  std::size_t (*greatest)(const Number* row, std::size_t size);
};

}  // namespace specgate::kernels
