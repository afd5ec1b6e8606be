// The kernel for AVX2 and FMA: 16 registers of 8 floats, of which 12 hold sums.
#include "panel.hpp"

namespace specgate::linear {

#if defined(__AVX2__) && defined(__FMA__)
const Kernel* const kAvx2 = &kKernelOf<8, 6>;
#else
const Kernel* const kAvx2 = nullptr;
#endif

}  // namespace specgate::linear
