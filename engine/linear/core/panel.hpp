// A panel of a weight times some rows, for vectors of any length.
//
// A step that decodes reads all weights and does little with each, so reading them from memory is
// what takes the time; a few rows more should cost nothing. So the next piece of the weight is
// fetched while all rows pass this one, evenly: reading and computing go on side by side.
#pragma once

#include "kernels.hpp"

namespace specgate::linear {

template <std::size_t kLanes>
struct Panel {
  using Vector [[gnu::vector_size(kLanes * sizeof(float))]] = float;

  static constexpr std::size_t kWidth = 2 * kLanes;
  static constexpr std::size_t kLineFloats = 16;  // 64 bytes
  static constexpr std::size_t kUnrolled = 4;     // inputs
  static constexpr std::size_t kGroupLines = kUnrolled * kWidth / kLineFloats;
  static constexpr std::size_t kPiece = 64;  // inputs whose part of the panel the cache holds
  static constexpr std::size_t kAhead = 2048;  // floats: some 100 ns, the time that memory takes

  // What is fetched while some rows pass a piece: so many lines for each group of inputs.
  struct Fetch {
    const float* from;
    std::size_t lines;
  };

  template <std::size_t kRows>
  [[gnu::always_inline]] static inline void multiply_input(const float* panel, const float* rows,
                                                           std::size_t stride,
                                                           Vector (&sums)[kRows][2]) {
    Vector left = reinterpret_cast<const Vector*>(panel)[0];
    Vector right = reinterpret_cast<const Vector*>(panel)[1];
    // Else they are read again for each row, and reading becomes what takes the time.
    asm("" : "+v"(left), "+v"(right));
#pragma GCC unroll 16
    for (std::size_t row = 0; row < kRows; ++row) {
      const float input = rows[row * stride];
      sums[row][0] += left * input;
      sums[row][1] += right * input;
    }
  }

  // Adds the products of a piece to the sums (kRows, kWidth).
  template <std::size_t kRows>
  static void multiply_rows(const float* panel, std::size_t inputs, const float* rows,
                            std::size_t stride, float* into, Fetch fetch) {
    Vector sums[kRows][2];
    for (std::size_t row = 0; row < kRows; ++row) {
      sums[row][0] = reinterpret_cast<const Vector*>(into + row * kWidth)[0];
      sums[row][1] = reinterpret_cast<const Vector*>(into + row * kWidth)[1];
    }
    std::size_t input = 0;
    for (; input + kUnrolled <= inputs; input += kUnrolled) {
      for (std::size_t line = 0; line < fetch.lines; ++line, fetch.from += kLineFloats) {
        __builtin_prefetch(fetch.from);
      }
#pragma GCC unroll 4
      for (std::size_t i = 0; i < kUnrolled; ++i, panel += kWidth) {
        multiply_input<kRows>(panel, rows + input + i, stride, sums);
      }
    }
    for (; input < inputs; ++input, panel += kWidth) {
      multiply_input<kRows>(panel, rows + input, stride, sums);
    }
    for (std::size_t row = 0; row < kRows; ++row) {
      reinterpret_cast<Vector*>(into + row * kWidth)[0] = sums[row][0];
      reinterpret_cast<Vector*>(into + row * kWidth)[1] = sums[row][1];
    }
  }

  using MultiplyRows = void (*)(const float*, std::size_t, const float*, std::size_t, float*,
                                Fetch);

  // `table[n]` multiplies n rows; as many as there are registers for.
  template <std::size_t kTable>
  static void multiply(const MultiplyRows (&table)[kTable], const float* panel, std::size_t in,
                       const float* rows, std::size_t stride, std::size_t count, float* sums) {
    constexpr std::size_t kMost = kTable - 1;
    const std::size_t passes = (count + kMost - 1) / kMost;
    for (std::size_t i = 0; i < count * kWidth; ++i) sums[i] = 0.0f;
    for (std::size_t begin = 0; begin < in; begin += kPiece) {
      const std::size_t inputs = in - begin < kPiece ? in - begin : kPiece;
      const std::size_t group_floats = inputs / kUnrolled * kLineFloats;
      const float* const piece = panel + begin * kWidth;
      for (std::size_t pass = 0; pass < passes; ++pass) {
        const std::size_t first = count * pass / passes;
        const std::size_t line = kGroupLines * pass / passes;
        table[count * (pass + 1) / passes - first](
            piece, inputs, rows + first * stride + begin, stride, sums + first * kWidth,
            {piece + kAhead + line * group_floats,
             kGroupLines * (pass + 1) / passes - line});
      }
    }
  }
};

}  // namespace specgate::linear
