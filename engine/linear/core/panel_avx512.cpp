// The kernel for AVX-512: 32 registers of 16 floats, of which 24 hold sums.
#include "panel.hpp"

namespace specgate::linear {

#if defined(__AVX512F__)
const Kernel* const kAvx512 = &kKernelOf<16, 12>;
#else
const Kernel* const kAvx512 = nullptr;
#endif

}  // namespace specgate::linear
