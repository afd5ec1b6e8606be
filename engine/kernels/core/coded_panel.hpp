// Widens codes to the lines of a panel, with AVX-512 and its instructions that round to bfloat16.
//
// The product of a code and a scale is exact, since both have few bits, so the fused addition rounds
// where a converter's separate one does; rounding to bfloat16 follows. Packing checks it.
#pragma once

#include <immintrin.h>

#include "codes.hpp"

namespace specgate::kernels {
namespace {

constexpr std::size_t kAheadBytes = 8192;  // read in about 400 ns, with a latency of about 100 ns

// Four registers for the lines of two inputs.
struct Spread {
  __m512 at[4];
};

// Numbers of 32 rows, at all places of `place_of`.
template <class Weight>
Spread spread(const float* numbers);

template <>
[[gnu::always_inline]] inline Spread spread<Pair>(const float* numbers) {
  const __m512i low = _mm512_set_epi32(7, 7, 6, 6, 5, 5, 4, 4, 3, 3, 2, 2, 1, 1, 0, 0);
  const __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
  const __m512 upper = _mm512_load_ps(numbers), lower = _mm512_load_ps(numbers + 16);
  return {{_mm512_permutexvar_ps(low, upper), _mm512_permutexvar_ps(high, upper),
           _mm512_permutexvar_ps(low, lower), _mm512_permutexvar_ps(high, lower)}};
}

template <>
[[gnu::always_inline]] inline Spread spread<BFloat16>(const float* numbers) {
  const __m512i low = _mm512_set_epi32(23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  const __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
  const __m512 upper = _mm512_load_ps(numbers), lower = _mm512_load_ps(numbers + 16);
  const __m512 left = _mm512_permutex2var_ps(upper, low, lower);
  const __m512 right = _mm512_permutex2var_ps(upper, high, lower);
  return {{left, right, left, right}};
}

[[gnu::always_inline]] inline void store_lines(const Spread& numbers, void* lines) {
  const __m512bh left = _mm512_cvtne2ps_pbh(numbers.at[1], numbers.at[0]);
  const __m512bh right = _mm512_cvtne2ps_pbh(numbers.at[3], numbers.at[2]);
  _mm512_store_si512(lines, reinterpret_cast<__m512i>(left));
  _mm512_store_si512(static_cast<char*>(lines) + 64, reinterpret_cast<__m512i>(right));
}

constexpr std::size_t kLineBytes = 2 * kCodedRows * sizeof(BFloat16);  // of two inputs

// Writes the lines of a block's inputs.
template <class Weight>
void widen(const FourBits& block, char* lines) {
  const __m512 numbers =
      _mm512_set_ps(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  const Spread scales = spread<Weight>(block.scales), least = spread<Weight>(block.least);
  for (int half = 0; half < 2; ++half) {
    __m512i words[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) words[i] = _mm512_load_si512(block.words[half] + 16 * i);
#pragma GCC unroll 8
    for (unsigned nibble = 0; nibble < 8; ++nibble, lines += kLineBytes) {
      Spread values;
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) {
        // The look-up takes the lowest four bits of an index.
        const __m512i codes = _mm512_srli_epi32(words[i], 4 * nibble);
        const __m512 exact = _mm512_permutexvar_ps(codes, numbers);
        values.at[i] = _mm512_fmadd_ps(exact, scales.at[i], least.at[i]);
      }
      store_lines(values, lines);
    }
  }
}

template <class Weight>
void widen(const EightBits& block, char* lines) {
  const Spread scales = spread<Weight>(block.scales);
#pragma GCC unroll 8
  for (std::size_t two = 0; two < EightBits::kInputs / 2; ++two, lines += kLineBytes) {
    Spread values;
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const auto* const codes = reinterpret_cast<const __m128i*>(block.codes[two]) + i;
      const __m512i wide = _mm512_cvtepi8_epi32(_mm_load_si128(codes));
      values.at[i] = _mm512_mul_ps(_mm512_cvtepi32_ps(wide), scales.at[i]);
    }
    store_lines(values, lines);
  }
}

// Widens the blocks of a piece, and fetches what lies 8 KiB ahead of them.
template <class Block, class Weight>
void widen_blocks(const Block* blocks, std::size_t count, Weight* piece) {
  char* lines = reinterpret_cast<char*>(piece);
  for (; count > 0; --count, ++blocks, lines += Block::kInputs / 2 * kLineBytes) {
    const char* const ahead = reinterpret_cast<const char*>(blocks) + kAheadBytes;
    for (std::size_t line = 0; line < sizeof(Block); line += 64) __builtin_prefetch(ahead + line);
    widen<Weight>(*blocks, lines);
  }
}

}  // namespace
}  // namespace specgate::kernels
