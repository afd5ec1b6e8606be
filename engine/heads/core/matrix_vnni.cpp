// The products of `Matrix` for AVX-512 with VNNI.
#if defined(__AVX512VNNI__)
#include <immintrin.h>

#include "integer_tiles.hpp"

namespace specgate::heads {
namespace {

struct Lane {
  using Vector = __m512i;
  static constexpr std::size_t kWidth = 32;

  static Vector zero() { return _mm512_setzero_si512(); }
  static Vector load(const Integer* from) { return _mm512_loadu_si512(from); }
  static Vector widen(const std::int8_t* from) {
    return _mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
  }
  static Vector add(Vector sums, Vector left, Vector right) {
    return _mm512_dpwssd_epi32(sums, left, right);
  }
  static std::int32_t total(Vector sums) { return _mm512_reduce_add_epi32(sums); }
};

}  // namespace

void multiply_vnni(const std::int8_t* weight, std::size_t out, std::size_t in,
                   const Integer* inputs, std::size_t rows, std::int32_t* sums) {
  IntegerTiles<Lane>::multiply(weight, out, in, inputs, rows, sums);
}

}  // namespace specgate::heads
#endif
