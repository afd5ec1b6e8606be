// Multiplies a panel of a weight with some rows, for any vector length.
//
// A decoding step reads all weights and does little with each, so memory bandwidth limits it; a few
// more rows should cost nothing. So while all rows pass one piece of the weight, the next piece is
// prefetched evenly, and reading overlaps with computing.
#pragma once

#include <cstdint>
#include <utility>

#include "linear_kernels.hpp"
#include "products.hpp"

namespace specgate::kernels {

// The lines of a panel: the values of its rows for one input, or for a pair of inputs.
template <std::size_t kLanes, class Weight>
struct PanelLines : Lanes<kLanes> {
  using Vector = typename Lanes<kLanes>::Vector;
  using Words = typename Lanes<kLanes>::Words;

  [[gnu::always_inline]] static inline void load(const float* panel, Vector& left, Vector& right) {
    left = reinterpret_cast<const Vector*>(panel)[0];
    right = reinterpret_cast<const Vector*>(panel)[1];
  }

  [[gnu::always_inline]] static inline void load(const BFloat16* panel, Vector& left,
                                                 Vector& right) {
    const Words pairs = *reinterpret_cast<const Words*>(panel);
    left = __builtin_bit_cast(Vector, pairs << 16);
    right = __builtin_bit_cast(Vector, pairs & 0xffff0000u);
  }
};

template <std::size_t kLanes, class Weight>
struct Panel {
  using Lines = PanelLines<kLanes, Weight>;
  using Input = InputOf<Weight>;

  static constexpr std::size_t kWidth = 2 * kLanes;
  static constexpr std::size_t kLineValues = 64 / sizeof(Weight);
  static constexpr std::size_t kUnrolled = 4;  // inputs
  static constexpr std::size_t kGroupLines = kUnrolled * kWidth / kLineValues;
  static constexpr std::size_t kPiece = 64;  // inputs whose part of the panel stays in the cache
  // 8 KiB: read in about 400 ns, with a memory latency of about 100 ns.
  static constexpr std::size_t kAhead = 8192 / sizeof(Weight);

  // What to prefetch while some rows pass a piece: a number of lines for each group of inputs.
  struct Fetch {
    const Weight* from;
    std::size_t lines;
  };

  // Adds the products of a piece to the sums (kRows, kWidth).
  template <std::size_t kRows>
  static void multiply_rows(const Weight* panel, std::size_t inputs, const Input* rows,
                            std::size_t stride, float* into, Fetch fetch) {
    RowSums<kRows, kLanes, Lines> sums;
    typename Lines::Values left, right;
    sums.read(into, kWidth);
    std::size_t input = 0;
    for (; input + kUnrolled <= inputs; input += kUnrolled) {
      for (std::size_t line = 0; line < fetch.lines; ++line, fetch.from += kLineValues) {
        __builtin_prefetch(fetch.from);
      }
#pragma GCC unroll 4
      for (std::size_t i = 0; i < kUnrolled; ++i, panel += kWidth) {
        Lines::load(panel, left, right);
        sums.add(left, right, rows + input + i, stride);
      }
    }
    for (; input < inputs; ++input, panel += kWidth) {
      Lines::load(panel, left, right);
      sums.add(left, right, rows + input, stride);
    }
    sums.write(into, kWidth);
  }

  using MultiplyRows = void (*)(const Weight*, std::size_t, const Input*, std::size_t, float*,
                                Fetch);

  // Adds the products of a piece, and fetches the one that lies `ahead`, unless that is null.
  // `table[n]` multiplies n + 1 rows, up to the number that there are registers for.
  template <std::size_t kMost>
  static void multiply_piece(const MultiplyRows (&table)[kMost], const Weight* piece,
                             std::size_t inputs, const Input* rows, std::size_t stride,
                             std::size_t count, float* sums, const Weight* ahead) {
    const std::size_t passes = (count + kMost - 1) / kMost;
    const std::size_t group_values = inputs / kUnrolled * kLineValues;
    const std::size_t lines = ahead == nullptr ? 0 : kGroupLines;
    for (std::size_t pass = 0; pass < passes; ++pass) {
      const std::size_t first = count * pass / passes;
      const std::size_t some = count * (pass + 1) / passes - first;
      const std::size_t line = lines * pass / passes;
      table[some - 1](piece, inputs, rows + first * stride, stride, sums + first * kWidth,
                      {ahead + line * group_values, lines * (pass + 1) / passes - line});
    }
  }

  static void clear(float* sums, std::size_t count) {
    for (std::size_t i = 0; i < count * kWidth; ++i) sums[i] = 0.0f;
  }

  template <std::size_t kMost>
  static void multiply(const MultiplyRows (&table)[kMost], const Weight* panel, std::size_t in,
                       const Input* rows, std::size_t stride, std::size_t count, float* sums) {
    clear(sums, count);
    for (std::size_t begin = 0; begin < in; begin += kPiece) {
      const std::size_t inputs = in - begin < kPiece ? in - begin : kPiece;
      const Weight* const piece = panel + begin * kWidth;
      multiply_piece(table, piece, inputs, rows + begin, stride, count, sums, piece + kAhead);
    }
  }

  template <class Rows>
  struct Table;
  template <std::size_t... kFewer>
  struct Table<std::index_sequence<kFewer...>> {
    static constexpr MultiplyRows kRows[] = {multiply_rows<kFewer + 1>...};
  };
};

// Up to kRegisters rows pass at once, with two registers of sums each.
template <std::size_t kLanes, std::size_t kRegisters, class Weight>
void multiply_panel(const Weight* panel, std::size_t in, const InputOf<Weight>* rows,
                    std::size_t stride, std::size_t count, float* sums) {
  using Own = Panel<kLanes, Weight>;
  using Table = typename Own::template Table<std::make_index_sequence<kRegisters>>;
  Own::multiply(Table::kRows, panel, in, rows, stride, count, sums);
}

template <std::size_t kLanes, std::size_t kRegisters, class Weight>
constexpr LinearKernel<Weight> linear_kernel_of(const char* name) {
  return {name, 2 * kLanes, 96, 1, multiply_panel<kLanes, kRegisters, Weight>, nullptr};
}

}  // namespace specgate::kernels
