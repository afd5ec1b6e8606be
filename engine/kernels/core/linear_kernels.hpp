// What multiplies a panel of a weight with rows, for each set of instructions.
#pragma once

#include <cstddef>
#include <vector>

#include "bfloat16.hpp"

namespace specgate::kernels {

// The most rows that pass a panel while it is in the caches, of any kernel.
inline constexpr std::size_t kMostRows = 512;
inline constexpr std::size_t kMostWidth = 32;

// A kind of weight: the type of its values as a panel holds them. `Number` is what the weight, the
// rows and the outputs consist of, `Input` what a kernel reads of a row at a time.
template <class Weight>
struct Kind;

template <>
struct Kind<float> {
  using Number = float;
  using Input = float;
};

// For processors without instructions for bfloat16: widened as they are read, rows before.
template <>
struct Kind<BFloat16> {
  using Number = BFloat16;
  using Input = float;
};

// For those with them.
template <>
struct Kind<Pair> {
  using Number = BFloat16;
  using Input = Pair;
};

template <class Weight>
using NumberOf = typename Kind<Weight>::Number;
template <class Weight>
using InputOf = typename Kind<Weight>::Input;

// A panel is `width` rows of the weight, laid out so that the values that one input is multiplied
// with are neighbours: (in, width). Where they are single bfloat16, those of the first half of the
// rows alternate with those of the second, so that two make two float32 by a shift and a mask.
template <class Weight>
struct LinearKernel {
  const char* name;
  std::size_t width;
  std::size_t most_rows;  // at once
  std::size_t unit;       // a row has a multiple of so many inputs, of which the last may be zeros
  // Writes the sums (count, width) of a panel and up to most_rows rows, which are `stride` inputs
  // apart. Each is added up in float32, in the order of the inputs, however many rows there are.
  void (*multiply)(const Weight* panel, std::size_t in, const InputOf<Weight>* rows,
                   std::size_t stride, std::size_t count, float* sums);
  // Gives back what a thread keeps from one product to the next; null for nothing.
  void (*release)();
};

// Those that this processor has, the best first.
template <class Weight>
std::vector<const LinearKernel<Weight>*> find_linear_kernels();

// Of one set of instructions; null where it was not compiled in.
struct LinearKernels {
  const LinearKernel<float>* floats;
  const LinearKernel<BFloat16>* halves;
  const LinearKernel<Pair>* pairs;
};

extern const LinearKernels kLinearAvx2;
extern const LinearKernels kLinearAvx512;
extern const LinearKernels kLinearAvx512BFloat16;
extern const LinearKernels kLinearAmx;

}  // namespace specgate::kernels
