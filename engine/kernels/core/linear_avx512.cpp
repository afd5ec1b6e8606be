// Linear layers for AVX-512: 32 registers of 16 floats, of which 24 hold sums.
#include "panel.hpp"

namespace specgate::kernels {

#if defined(__AVX512F__)
namespace {
constexpr LinearKernel<float> kFloats = linear_kernel_of<16, 12, float>("avx512");
constexpr LinearKernel<BFloat16> kHalves = linear_kernel_of<16, 12, BFloat16>("avx512");
}  // namespace
const LinearKernels kLinearAvx512{&kFloats, &kHalves, nullptr};
#else
const LinearKernels kLinearAvx512{nullptr, nullptr, nullptr};
#endif

}  // namespace specgate::kernels
