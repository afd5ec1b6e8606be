// Linear layers for AVX2 and FMA: 16 registers of 8 floats, of which 12 hold sums.
#include "panel.hpp"

namespace specgate::kernels {

#if defined(__AVX2__) && defined(__FMA__)
namespace {
constexpr LinearKernel<float> kFloats = linear_kernel_of<8, 6, float>("avx2");
constexpr LinearKernel<BFloat16> kHalves = linear_kernel_of<8, 6, BFloat16>("avx2");
}  // namespace
const LinearKernels kLinearAvx2{&kFloats, &kHalves, nullptr};
#else
const LinearKernels kLinearAvx2{nullptr, nullptr, nullptr};
#endif

}  // namespace specgate::kernels
