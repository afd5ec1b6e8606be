// Products of int16 inputs with an int8 weight, for any vector length. Included once for each
// instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

#include "matrix.hpp"

namespace specgate::heads {

// `Lane` has kWidth int16 in a vector: `load` reads inputs, `widen` a weight, `add` adds the
// products of two vectors to kWidth / 2 sums, and `total` adds those up.
template <class Lane>
struct IntegerTiles {
  using Vector = typename Lane::Vector;

  // kOuts rows of the weight with kRows of all inputs: each number that is read serves a whole row
  // or column of the tile.
  template <std::size_t kOuts, std::size_t kRows>
  [[gnu::always_inline]] static inline void tile(const std::int8_t* weight, std::size_t in,
                                                 const Integer* inputs, std::size_t rows,
                                                 std::int32_t* sums) {
    Vector lanes[kOuts][kRows];
    for (auto& row : lanes) {
      for (Vector& lane : row) lane = Lane::zero();
    }
    std::size_t i = 0;
    for (; i + Lane::kWidth <= in; i += Lane::kWidth) {
      Vector input[kRows];
      for (std::size_t row = 0; row < kRows; ++row) input[row] = Lane::load(inputs + row * in + i);
      for (std::size_t o = 0; o < kOuts; ++o) {
        const Vector numbers = Lane::widen(weight + o * in + i);
        for (std::size_t row = 0; row < kRows; ++row) {
          lanes[o][row] = Lane::add(lanes[o][row], numbers, input[row]);
        }
      }
    }
    for (std::size_t o = 0; o < kOuts; ++o) {
      for (std::size_t row = 0; row < kRows; ++row) {
        std::int32_t sum = Lane::total(lanes[o][row]);
        for (std::size_t at = i; at < in; ++at) {
          sum += static_cast<std::int32_t>(inputs[row * in + at]) * weight[o * in + at];
        }
        sums[o * rows + row] = sum;
      }
    }
  }

  template <std::size_t kOuts>
  [[gnu::always_inline]] static inline void all_rows(const std::int8_t* weight, std::size_t in,
                                                     const Integer* inputs, std::size_t rows,
                                                     std::int32_t* sums) {
    std::size_t row = 0;
    for (; row + 2 <= rows; row += 2) {
      tile<kOuts, 2>(weight, in, inputs + row * in, rows, sums + row);
    }
    if (row < rows) tile<kOuts, 1>(weight, in, inputs + row * in, rows, sums + row);
  }

  static void multiply(const std::int8_t* weight, std::size_t out, std::size_t in,
                       const Integer* inputs, std::size_t rows, std::int32_t* sums) {
    std::size_t o = 0;
    for (; o + 4 <= out; o += 4) all_rows<4>(weight + o * in, in, inputs, rows, sums + o * rows);
    for (; o < out; ++o) all_rows<1>(weight + o * in, in, inputs, rows, sums + o * rows);
  }
};

}  // namespace specgate::heads
