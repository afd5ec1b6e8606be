// Attention for AVX-512: 32 registers of 16 floats, of which 24 hold sums.
#include "attend.hpp"

namespace specgate::kernels {

#if defined(__AVX512F__)
namespace {
constexpr auto kFloats = attention_kernel_of<16, 12, WidenedLines<16, float>>("avx512");
constexpr auto kHalves = attention_kernel_of<16, 12, WidenedLines<16, BFloat16>>("avx512");
}  // namespace
const AttentionKernels kAttentionAvx512{&kFloats, &kHalves};
#else
const AttentionKernels kAttentionAvx512{nullptr, nullptr};
#endif

}  // namespace specgate::kernels
