// The kernel for AVX-512: 32 registers of 16 floats, of which 24 hold sums.
#include "panel.hpp"

namespace specgate::linear {

#if defined(__AVX512F__)
namespace {

using Avx512 = Panel<16>;

constexpr Avx512::MultiplyRows kTable[] = {
    nullptr,
    Avx512::multiply_rows<1>,
    Avx512::multiply_rows<2>,
    Avx512::multiply_rows<3>,
    Avx512::multiply_rows<4>,
    Avx512::multiply_rows<5>,
    Avx512::multiply_rows<6>,
    Avx512::multiply_rows<7>,
    Avx512::multiply_rows<8>,
    Avx512::multiply_rows<9>,
    Avx512::multiply_rows<10>,
    Avx512::multiply_rows<11>,
    Avx512::multiply_rows<12>,
};

void multiply(const float* panel, std::size_t in, const float* rows, std::size_t stride,
              std::size_t count, float* sums) {
  Avx512::multiply(kTable, panel, in, rows, stride, count, sums);
}

constexpr Kernel kKernel{Avx512::kWidth, multiply};

}  // namespace

const Kernel* const kAvx512 = &kKernel;
#else
const Kernel* const kAvx512 = nullptr;
#endif

}  // namespace specgate::linear
