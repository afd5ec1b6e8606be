// The kernels for AVX2 and FMA: 16 registers of 8 floats, of which 12 hold sums.
#include "attend.hpp"
#include "instructions.hpp"
#include "panel.hpp"
#include "rows.hpp"

namespace specgate::kernels {

#if defined(__AVX2__) && defined(__FMA__)
namespace {
constexpr auto kFloats = linear_kernel_of<8, 6, float>("avx2");
constexpr auto kHalves = linear_kernel_of<8, 6, BFloat16>("avx2");
constexpr auto kAttendFloats = attention_kernel_of<8, 6, WidenedLines<8, float>>("avx2");
constexpr auto kAttendHalves = attention_kernel_of<8, 6, WidenedLines<8, BFloat16>>("avx2");
constexpr auto kFloatRows = row_kernel_of<8, float>("avx2");
constexpr auto kHalfRows = row_kernel_of<8, BFloat16>("avx2");
}  // namespace
const Instructions kAvx2{{&kFloats}, {&kHalves}, {}, {&kAttendFloats}, {&kAttendHalves},
                         {&kFloatRows}, {&kHalfRows}};
#else
const Instructions kAvx2{};
#endif

}  // namespace specgate::kernels
