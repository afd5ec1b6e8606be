#include "kernels.hpp"

namespace specgate::linear {
namespace {

// The best first.
std::vector<Kernels> find_instructions() {
  std::vector<Kernels> found;
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f")) {
    if (__builtin_cpu_supports("avx512bf16")) found.push_back(kAvx512BFloat16);
    found.push_back(kAvx512);
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) found.push_back(kAvx2);
#endif
  return found;
}

template <class Weight>
std::vector<const Kernel<Weight>*> find(const Kernel<Weight>* Kernels::*kind) {
  std::vector<const Kernel<Weight>*> found;
  for (const Kernels& kernels : find_instructions()) {
    if (kernels.*kind != nullptr) found.push_back(kernels.*kind);
  }
  return found;
}

}  // namespace

template <>
std::vector<const Kernel<float>*> find_kernels() {
  return find(&Kernels::floats);
}

template <>
std::vector<const Kernel<BFloat16>*> find_kernels() {
  return find(&Kernels::halves);
}

template <>
std::vector<const Kernel<Pair>*> find_kernels() {
  return find(&Kernels::pairs);
}

}  // namespace specgate::linear
