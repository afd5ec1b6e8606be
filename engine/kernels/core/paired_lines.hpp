// Lines of bfloat16 as AVX-512's and AMX's instructions take them: each number beside the one of the
// next line.
#pragma once

#include <immintrin.h>

#include "attend.hpp"

namespace specgate::kernels {
namespace {

struct PairedLines : Lanes<16> {
  using Number = BFloat16;
  using Input = Pair;
  using Values = __m512bh;
  static constexpr std::size_t kInputs = 2;

  // 32 numbers of a line and of the next, which may be null: then its numbers are zeros.
  [[gnu::always_inline]] static inline void load(const BFloat16* line, const BFloat16* next,
                                                 Values& left, Values& right) {
    const __m512i low = _mm512_set_epi16(
        47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8, 39, 7, 38, 6, 37, 5, 36, 4,
        35, 3, 34, 2, 33, 1, 32, 0);
    const __m512i high = _mm512_add_epi16(low, _mm512_set1_epi16(16));
    const __m512i first = _mm512_loadu_si512(line);
    const __m512i second = next == nullptr ? _mm512_setzero_si512() : _mm512_loadu_si512(next);
    left = reinterpret_cast<__m512bh>(_mm512_permutex2var_epi16(first, low, second));
    right = reinterpret_cast<__m512bh>(_mm512_permutex2var_epi16(first, high, second));
  }
  [[gnu::always_inline]] static inline void add(Vector& sums, Values values, Input input) {
    const auto both = _mm512_set1_epi32(__builtin_bit_cast(int, input));
    sums = _mm512_dpbf16_ps(sums, values, reinterpret_cast<__m512bh>(both));
  }

  static void copy(const BFloat16* row, std::size_t count, Input* inputs) {
    for (std::size_t i = 0; i < count; i += 2) inputs[i / 2] = {row[i], row[i + 1]};
  }
  static Vector weights(Vector numbers, Input* inputs) {
    const __m256bh rounded = _mm512_cvtneps_pbh(numbers);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(inputs), reinterpret_cast<__m256i>(rounded));
    return _mm512_cvtpbh_ps(rounded);
  }
};

}  // namespace
}  // namespace specgate::kernels
