// The kernels for AVX-512: 32 registers of 16 floats, of which 24 hold sums.
#include "attend.hpp"
#include "instructions.hpp"
#include "panel.hpp"
#include "rows.hpp"

namespace specgate::kernels {

#if defined(__AVX512F__)
namespace {
constexpr auto kFloats = linear_kernel_of<16, 12, float>("avx512");
constexpr auto kHalves = linear_kernel_of<16, 12, BFloat16>("avx512");
constexpr auto kAttendFloats = attention_kernel_of<16, 12, WidenedLines<16, float>>("avx512");
constexpr auto kAttendHalves = attention_kernel_of<16, 12, WidenedLines<16, BFloat16>>("avx512");
constexpr auto kFloatRows = row_kernel_of<16, float>("avx512");
constexpr auto kHalfRows = row_kernel_of<16, BFloat16>("avx512");
}  // namespace
const Instructions kAvx512{{&kFloats}, {&kHalves}, {}, {&kAttendFloats}, {&kAttendHalves},
                           {&kFloatRows}, {&kHalfRows}};
#else
const Instructions kAvx512{};
#endif

}  // namespace specgate::kernels
