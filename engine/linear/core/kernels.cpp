#include "kernels.hpp"

namespace specgate::linear {

const Kernel* find_kernel() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (kAvx512 != nullptr && __builtin_cpu_supports("avx512f")) return kAvx512;
  if (kAvx2 != nullptr && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    return kAvx2;
  }
#endif
  return nullptr;
}

}  // namespace specgate::linear
