// The products of `Matrix` for AVX2.
#if defined(__AVX2__)
#include <immintrin.h>

#include "integer_tiles.hpp"

namespace specgate::heads {
namespace {

struct Lane {
  using Vector = __m256i;
  static constexpr std::size_t kWidth = 16;

  static Vector zero() { return _mm256_setzero_si256(); }
  static Vector load(const Integer* from) {
    return _mm256_loadu_si256(reinterpret_cast<const Vector*>(from));
  }
  static Vector widen(const std::int8_t* from) {
    return _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  }
  static Vector add(Vector sums, Vector left, Vector right) {
    return _mm256_add_epi32(sums, _mm256_madd_epi16(left, right));
  }
  static std::int32_t total(Vector sums) {
    const __m128i four =
        _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
    const __m128i two = _mm_add_epi32(four, _mm_unpackhi_epi64(four, four));
    return _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32(two, 1)));
  }
};

}  // namespace

void multiply_avx2(const std::int8_t* weight, std::size_t out, std::size_t in,
                   const Integer* inputs, std::size_t rows, std::int32_t* sums) {
  IntegerTiles<Lane>::multiply(weight, out, in, inputs, rows, sums);
}

}  // namespace specgate::heads
#endif
