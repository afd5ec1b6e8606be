// Products of a few rows with the lines of a matrix, for any vector length: what linear layers and
// attention share. A line is 2 * kLanes numbers, in two halves. See bfloat16.hpp for inlining.
#pragma once

#include <cstddef>
#include <cstdint>

namespace specgate::kernels {

// Vectors of kLanes sums.
template <std::size_t kLanes>
struct Lanes {
  using Vector [[gnu::vector_size(kLanes * sizeof(float)), gnu::may_alias]] = float;
  using Words [[gnu::vector_size(kLanes * sizeof(float)), gnu::may_alias]] = std::uint32_t;
  // Unaligned, as memory owned by others may be.
  using Floats [[gnu::vector_size(kLanes * sizeof(float)), gnu::may_alias,
                 gnu::aligned(alignof(float))]] = float;
  // The half of a line, and what it is multiplied with.
  using Values = Vector;
  using Input = float;

  [[gnu::always_inline]] static inline Vector read(const float* from) {
    return *reinterpret_cast<const Floats*>(from);
  }
  [[gnu::always_inline]] static inline void write(float* to, Vector numbers) {
    *reinterpret_cast<Floats*>(to) = numbers;
  }
  [[gnu::always_inline]] static inline void add(Vector& sums, Values values, Input input) {
    sums += values * input;
  }
};

// The sums (kRows, 2 * kLanes) of some rows; they stay in registers, since every loop over them is
// unrolled. Each is accumulated in the order of the lines, for any number of rows.
template <std::size_t kRows, std::size_t kLanes, class Lines>
struct RowSums {
  using Vector = typename Lines::Vector;
  using Values = typename Lines::Values;
  using Input = typename Lines::Input;

  [[gnu::always_inline]] inline void read(const float* from, std::size_t step) {
#pragma GCC unroll 16
    for (std::size_t row = 0; row < kRows; ++row) {
      at[row][0] = Lines::read(from + row * step);
      at[row][1] = Lines::read(from + row * step + kLanes);
    }
  }

  // Adds the products of a line with an input of each row, `stride` apart.
  [[gnu::always_inline]] inline void add(Values left, Values right, const Input* rows,
                                         std::size_t stride) {
    // Prevents reloading the line for each row, which would make loads the bottleneck.
    asm("" : "+v"(left), "+v"(right));
#pragma GCC unroll 16
    for (std::size_t row = 0; row < kRows; ++row) {
      const Input input = rows[row * stride];
      Lines::add(at[row][0], left, input);
      Lines::add(at[row][1], right, input);
    }
  }

  [[gnu::always_inline]] inline void write(float* to, std::size_t step) const {
#pragma GCC unroll 16
    for (std::size_t row = 0; row < kRows; ++row) {
      Lines::write(to + row * step, at[row][0]);
      Lines::write(to + row * step + kLanes, at[row][1]);
    }
  }

  Vector at[kRows][2];
};

}  // namespace specgate::kernels
