// Attention for AVX2 and FMA: 16 registers of 8 floats, of which 12 hold sums.
#include "attend.hpp"

namespace specgate::kernels {

#if defined(__AVX2__) && defined(__FMA__)
namespace {
constexpr auto kFloats = attention_kernel_of<8, 6, WidenedLines<8, float>>("avx2");
constexpr auto kHalves = attention_kernel_of<8, 6, WidenedLines<8, BFloat16>>("avx2");
}  // namespace
const AttentionKernels kAttentionAvx2{&kFloats, &kHalves};
#else
const AttentionKernels kAttentionAvx2{nullptr, nullptr};
#endif

}  // namespace specgate::kernels
