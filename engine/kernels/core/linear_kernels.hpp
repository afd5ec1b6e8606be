// The kernels that multiply rows with a panel of a weight, for each instruction set.
#pragma once

#include <cstddef>

#include "bfloat16.hpp"
#include "codes.hpp"

namespace specgate::kernels {

// Maximum rows that any kernel multiplies with a panel while it is in the caches.
inline constexpr std::size_t kMostRows = 512;
inline constexpr std::size_t kMostWidth = 32;

// A kind of weight, named by the type of its values in a panel. `Number` is the type of the weight,
// rows and outputs in memory; `Input` is what a kernel reads of a row at a time.
template <class Weight>
struct Kind;

template <>
struct Kind<float> {
  using Number = float;
  using Input = float;
};

// For processors without bfloat16 instructions: weights are widened when read, rows beforehand.
template <>
struct Kind<BFloat16> {
  using Number = BFloat16;
  using Input = float;
};

// For processors with bfloat16 instructions.
template <>
struct Kind<Pair> {
  using Number = BFloat16;
  using Input = Pair;
};

template <class Weight>
using NumberOf = typename Kind<Weight>::Number;
template <class Weight>
using InputOf = typename Kind<Weight>::Input;
// Numbers of a row in one input of a kernel.
template <class Weight>
inline constexpr std::size_t kNumbers = sizeof(Weight) / sizeof(NumberOf<Weight>);

// The same of a panel of codes, for kernels that have it.
template <class Block, class Weight>
struct CodedKernel {
  // The same sums, bit for bit, as `LinearKernel<Weight>::multiply` of the panel that the codes widen
  // to. `in` is as there; that many inputs fill whole blocks.
  void (*multiply)(const Block* panel, std::size_t in, const InputOf<Weight>* rows,
                   std::size_t stride, std::size_t count, float* sums);
  // Widens some blocks to their part of that panel.
  void (*widen)(const Block* blocks, std::size_t count, Weight* panel);
};

// A panel is `width` rows of the weight, stored as (in, width), so that the values for one input
// are contiguous. Single bfloat16 values of the first half of the rows alternate with those of the
// second half, so that a shift and a mask turn each pair into two float32.
template <class Weight>
struct LinearKernel {
  const char* name;
  std::size_t width;
  std::size_t most_rows;  // at once, at most kMostRows
  std::size_t unit;       // rows are padded with zeros to a multiple of this many inputs
  // Writes the sums (count, width) for a panel and up to `most_rows` rows, which are `stride`
  // inputs apart. Accumulates in float32, in the order of the inputs, for any number of rows.
  void (*multiply)(const Weight* panel, std::size_t in, const InputOf<Weight>* rows,
                   std::size_t stride, std::size_t count, float* sums);
  // Releases what a thread keeps between products; null if that is nothing.
  void (*release)();
  CodedKernel<FourBits, Weight> four_bits{};
  CodedKernel<EightBits, Weight> eight_bits{};
};

}  // namespace specgate::kernels
