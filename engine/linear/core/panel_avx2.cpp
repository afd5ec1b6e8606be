// Kernels for AVX2 and FMA: 16 registers of 8 floats, of which 12 hold sums.
#include "panel.hpp"

namespace specgate::linear {

#if defined(__AVX2__) && defined(__FMA__)
namespace {
constexpr Kernel<float> kFloats = kernel_of<8, 6, float>("avx2");
constexpr Kernel<BFloat16> kHalves = kernel_of<8, 6, BFloat16>("avx2");
}  // namespace
const Kernels kAvx2{&kFloats, &kHalves, nullptr};
#else
const Kernels kAvx2{nullptr, nullptr, nullptr};
#endif

}  // namespace specgate::linear
