// The kernels for AVX-512 with bfloat16 instructions: two products per lane at once.
//
// VDPBF16PS rounds each of its two additions to nearest and treats subnormal numbers as zero,
// regardless of MXCSR (Intel SDM, volume 2; the same on AMD). Attention's weights are rounded to
// bfloat16, as in FlashAttention on GPUs (arXiv 2205.14135), and normalised by the sum of the
// rounded weights.
#include "instructions.hpp"
#include "panel.hpp"

#if defined(__AVX512BF16__) && defined(__AVX512BW__)
#include "coded_panel.hpp"
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

constexpr std::size_t kRegisters = 12;

// All rows pass a piece of the panel after it was widened.
template <class Block, class Weight>
void multiply_coded(const Block* panel, std::size_t in, const InputOf<Weight>* rows,
                    std::size_t stride, std::size_t count, float* sums) {
  using Own = Panel<16, Weight>;
  using Table = typename Own::template Table<std::make_index_sequence<kRegisters>>;
  constexpr std::size_t kInputs = Block::kInputs / kNumbers<Weight>;
  static_assert(Own::kWidth == kCodedRows && Own::kPiece % kInputs == 0);
  alignas(64) Weight piece[Own::kPiece * kCodedRows];
  Own::clear(sums, count);
  for (std::size_t begin = 0; begin < in; begin += Own::kPiece) {
    const std::size_t some = in - begin < Own::kPiece ? in - begin : Own::kPiece;
    widen_blocks(panel + begin / kInputs, some / kInputs, piece);
    Own::multiply_piece(Table::kRows, piece, some, rows + begin, stride, count, sums, nullptr);
  }
}

template <class Weight>
constexpr LinearKernel<Weight> coded_kernel_of(const char* name) {
  auto kernel = linear_kernel_of<16, kRegisters, Weight>(name);
  kernel.four_bits = {multiply_coded<FourBits, Weight>, widen_blocks<FourBits, Weight>};
  kernel.eight_bits = {multiply_coded<EightBits, Weight>, widen_blocks<EightBits, Weight>};
  return kernel;
}

constexpr auto kPairs = coded_kernel_of<Pair>("avx512_bf16");
// AVX-512's own kernel, which reads codes.
constexpr auto kHalves = coded_kernel_of<BFloat16>("avx512_fma");
constexpr auto kAttendHalves = attention_kernel_of<16, kRegisters, PairedLines>("avx512_bf16");
}  // namespace
const Instructions kAvx512BFloat16{{}, {&kHalves}, {&kPairs}, {}, {&kAttendHalves}, {}, {}};

#else
const Instructions kAvx512BFloat16{};
#endif

}  // namespace specgate::kernels
