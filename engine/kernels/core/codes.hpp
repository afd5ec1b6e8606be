// A weight as a model's file holds it: small codes, of which a scale makes numbers. The weight in
// bfloat16 is what the codes widen to, so products are the same, bit for bit, and less is read.
#pragma once

#include <cstddef>
#include <cstdint>

#include "bfloat16.hpp"

namespace specgate::kernels {

inline constexpr std::size_t kCodedRows = 32;  // of a panel

// 32 rows and 32 inputs: a number is `code * scale + least`.
struct alignas(64) FourBits {
  static constexpr std::size_t kInputs = 32;

  float scales[kCodedRows];
  float least[kCodedRows];
  // Nibble n of the words of a half has the codes of two inputs, 16 * half + 2 * n and the next, as
  // they follow each other in the panel's lines. So a shift gives the codes of a register.
  std::uint32_t words[2][2 * kCodedRows];
};

// 32 rows and 16 inputs: a number is `code * scale`.
struct alignas(64) EightBits {
  static constexpr std::size_t kInputs = 16;

  float scales[kCodedRows];
  std::int8_t codes[kInputs / 2][2 * kCodedRows];  // of two inputs, as in the panel's lines
};

// Some rows of a weight (out, in), in codes: (rows, in / 2) bytes, the even input in the low nibble,
// with scales and least numbers (rows, in / 32); or (rows, in) signed bytes with scales
// (rows, in / 16), and null.
struct CodedRows {
  std::size_t first;
  std::size_t rows;
  int bits;  // 4 or 8
  const std::uint8_t* codes;
  const float* scales;
  const float* least;
};

// The place of a row's number in the lines of two inputs, of which it is the first or the second.
template <class Weight>
std::size_t place_of(std::size_t row, std::size_t second);

template <>
inline std::size_t place_of<Pair>(std::size_t row, std::size_t second) {
  return 2 * row + second;
}

template <>
inline std::size_t place_of<BFloat16>(std::size_t row, std::size_t second) {
  return kCodedRows * second + row % 16 * 2 + row / 16;
}

// Writes codes of one row to a lane of a panel's blocks, which are zero.
template <class Weight>
void pack_codes(const CodedRows& coded, std::size_t row, std::size_t in, std::size_t lane,
                FourBits* blocks) {
  const std::uint8_t* const codes = coded.codes + row * in / 2;
  for (std::size_t i = 0; i < in; i += 2) {
    FourBits& block = blocks[i / 32];
    std::uint32_t* const words = block.words[i % 32 / 16];
    const std::size_t shift = i % 16 * 2;
    const std::uint32_t both = codes[i / 2];
    block.scales[lane] = coded.scales[(row * in + i) / 32];
    block.least[lane] = coded.least[(row * in + i) / 32];
    words[place_of<Weight>(lane, 0)] |= (both & 15) << shift;
    words[place_of<Weight>(lane, 1)] |= (both >> 4) << shift;
  }
}

template <class Weight>
void pack_codes(const CodedRows& coded, std::size_t row, std::size_t in, std::size_t lane,
                EightBits* blocks) {
  const std::uint8_t* const codes = coded.codes + row * in;
  for (std::size_t i = 0; i < in; ++i) {
    EightBits& block = blocks[i / 16];
    block.scales[lane] = coded.scales[(row * in + i) / 16];
    block.codes[i % 16 / 2][place_of<Weight>(lane, i % 2)] = static_cast<std::int8_t>(codes[i]);
  }
}

}  // namespace specgate::kernels
