// The kernel for AVX2 and FMA: 16 registers of 8 floats, of which 12 hold sums.
#include "panel.hpp"

namespace specgate::linear {

#if defined(__AVX2__) && defined(__FMA__)
namespace {

using Avx2 = Panel<8>;

constexpr Avx2::MultiplyRows kTable[] = {
    nullptr,
    Avx2::multiply_rows<1>,
    Avx2::multiply_rows<2>,
    Avx2::multiply_rows<3>,
    Avx2::multiply_rows<4>,
    Avx2::multiply_rows<5>,
    Avx2::multiply_rows<6>,
};

void multiply(const float* panel, std::size_t in, const float* rows, std::size_t stride,
              std::size_t count, float* sums) {
  Avx2::multiply(kTable, panel, in, rows, stride, count, sums);
}

constexpr Kernel kKernel{Avx2::kWidth, multiply};

}  // namespace

const Kernel* const kAvx2 = &kKernel;
#else
const Kernel* const kAvx2 = nullptr;
#endif

}  // namespace specgate::linear
