// Finds the kernels that this processor supports.
#include "attention_kernels.hpp"
#include "linear_kernels.hpp"

namespace specgate::kernels {
namespace {

struct Instructions {
  const LinearKernels* linear;
  const AttentionKernels* attention;
};

// Best first.
std::vector<Instructions> find_instructions() {
  std::vector<Instructions> found;
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f")) {
    if (__builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512bw")) {
      found.push_back({&kLinearAvx512BFloat16, &kAttentionAvx512BFloat16});
    }
    found.push_back({&kLinearAvx512, &kAttentionAvx512});
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    found.push_back({&kLinearAvx2, &kAttentionAvx2});
  }
#endif
  return found;
}

template <class Kernel, class Kernels>
std::vector<const Kernel*> find(const Kernels* Instructions::*set,
                                const Kernel* Kernels::*kind) {
  std::vector<const Kernel*> found;
  for (const Instructions& instructions : find_instructions()) {
    const Kernels* const kernels = instructions.*set;
    if (kernels != nullptr && kernels->*kind != nullptr) found.push_back(kernels->*kind);
  }
  return found;
}

}  // namespace

template <>
std::vector<const LinearKernel<float>*> find_linear_kernels() {
  return find(&Instructions::linear, &LinearKernels::floats);
}

template <>
std::vector<const LinearKernel<BFloat16>*> find_linear_kernels() {
  return find(&Instructions::linear, &LinearKernels::halves);
}

template <>
std::vector<const LinearKernel<Pair>*> find_linear_kernels() {
  return find(&Instructions::linear, &LinearKernels::pairs);
}

template <>
std::vector<const AttentionKernel<float>*> find_attention_kernels() {
  return find(&Instructions::attention, &AttentionKernels::floats);
}

template <>
std::vector<const AttentionKernel<BFloat16>*> find_attention_kernels() {
  return find(&Instructions::attention, &AttentionKernels::halves);
}

}  // namespace specgate::kernels
