// The kernels for AVX-512 with bfloat16 instructions: two products per lane at once.
//
// VDPBF16PS rounds each of its two additions to nearest and treats subnormal numbers as zero,
// regardless of MXCSR (Intel SDM, volume 2; the same on AMD). Attention's weights are rounded to
// bfloat16, as in FlashAttention on GPUs (arXiv 2205.14135), and normalised by the sum of the
// rounded weights.
#include "instructions.hpp"
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
constexpr auto kPairs = linear_kernel_of<16, 12, Pair>("avx512_bf16");
constexpr auto kAttendHalves = attention_kernel_of<16, 12, PairedLines>("avx512_bf16");
}  // namespace
const Instructions kAvx512BFloat16{{}, {}, {&kPairs}, {}, {&kAttendHalves}, {}, {}};

#else
const Instructions kAvx512BFloat16{};
#endif

}  // namespace specgate::kernels
