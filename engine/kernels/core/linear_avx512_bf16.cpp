// Linear layers for processors with AVX-512 bfloat16 instructions: two products per lane at once.
//
// VDPBF16PS rounds each of its two additions to nearest and treats subnormal numbers as zero,
// regardless of MXCSR (Intel SDM, volume 2; the same on AMD).
#include "panel.hpp"

#if defined(__AVX512BF16__) && defined(__AVX512BW__)
#include "paired_lines.hpp"
#endif

namespace specgate::kernels {

#if defined(__AVX512BF16__) && defined(__AVX512BW__)

// A panel has its pairs already.
template <>
struct PanelLines<16, Pair> : PairedLines {
  [[gnu::always_inline]] static inline void load(const Pair* panel, Values& left, Values& right) {
    left = reinterpret_cast<__m512bh>(_mm512_load_si512(panel));
    right = reinterpret_cast<__m512bh>(_mm512_load_si512(panel + 16));
  }
};

namespace {
constexpr LinearKernel<Pair> kPairs = linear_kernel_of<16, 12, Pair>("avx512_bf16");
}  // namespace
const LinearKernels kLinearAvx512BFloat16{nullptr, nullptr, &kPairs};

#else
const LinearKernels kLinearAvx512BFloat16{nullptr, nullptr, nullptr};
#endif

}  // namespace specgate::kernels
