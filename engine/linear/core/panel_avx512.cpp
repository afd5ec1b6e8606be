// Kernels for AVX-512: 32 registers of 16 floats, of which 24 hold sums.
#include "panel.hpp"

namespace specgate::linear {

#if defined(__AVX512F__)
namespace {
constexpr Kernel<float> kFloats = kernel_of<16, 12, float>("avx512");
constexpr Kernel<BFloat16> kHalves = kernel_of<16, 12, BFloat16>("avx512");
}  // namespace
const Kernels kAvx512{&kFloats, &kHalves, nullptr};
#else
const Kernels kAvx512{nullptr, nullptr, nullptr};
#endif

}  // namespace specgate::linear
