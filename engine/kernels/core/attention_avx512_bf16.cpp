// Attention for processors with AVX-512 bfloat16 instructions: two lines of the cache at once.
//
// Weights are rounded to bfloat16, as in FlashAttention on GPUs (arXiv 2205.14135), and normalised
// by the sum of the rounded weights.
#include "attention_kernels.hpp"

#if defined(__AVX512BF16__) && defined(__AVX512BW__)
#include "paired_lines.hpp"
#endif

namespace specgate::kernels {

#if defined(__AVX512BF16__) && defined(__AVX512BW__)
namespace {
constexpr auto kHalves = attention_kernel_of<16, 12, PairedLines>("avx512_bf16");
}  // namespace
const AttentionKernels kAttentionAvx512BFloat16{nullptr, &kHalves};
#else
const AttentionKernels kAttentionAvx512BFloat16{nullptr, nullptr};
#endif

}  // namespace specgate::kernels
