// Attention for processors with AVX-512 bfloat16 instructions: two lines of the cache at once.
//
// Weights are rounded to bfloat16, as in FlashAttention on GPUs (arXiv 2205.14135), and normalised
// by the sum of the rounded weights.
#include "attend.hpp"

#if defined(__AVX512BF16__)
#include <immintrin.h>
#endif

namespace specgate::kernels {

#if defined(__AVX512BF16__) && defined(__AVX512BW__)
namespace {

struct PairedLines {
  using Number = BFloat16;
  using Input = Pair;
  using Vector = __m512;
  using Values = __m512bh;
  static constexpr std::size_t kInputs = 2;

  // Interleaves the numbers of two consecutive lines.
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

constexpr auto kHalves = attention_kernel_of<16, 12, PairedLines>("avx512_bf16");

}  // namespace
const AttentionKernels kAttentionAvx512BFloat16{nullptr, &kHalves};
#else
const AttentionKernels kAttentionAvx512BFloat16{nullptr, nullptr};
#endif

}  // namespace specgate::kernels
