// Finds the kernels that this processor supports.
#include "instructions.hpp"

#include "attention_kernels.hpp"
#include "linear_kernels.hpp"

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace specgate::kernels {
namespace {

#if defined(__x86_64__) && defined(__linux__)
// Tiles for bfloat16: what CPUID says (Intel SDM, leaf 7), and then whether Linux lets this process
// use them, for which it has to be asked once (Documentation/arch/x86/xstate.rst).
Tiles ask_for_tiles() {
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;               // XFEATURE_XTILEDATA
  constexpr unsigned kBFloat16 = 1u << 22, kTile = 1u << 24;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d & kBFloat16) == 0 || (d & kTile) == 0) {
    return Tiles::kAbsent;
  }
  return ::syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0 ? Tiles::kUsable
                                                                      : Tiles::kRefused;
}
#else
Tiles ask_for_tiles() { return Tiles::kAbsent; }
#endif

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
      if (find_tiles() == Tiles::kUsable) found.push_back({&kLinearAmx, &kAttentionAmx});
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

Tiles find_tiles() {
  static const Tiles tiles = ask_for_tiles();
  return tiles;
}

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
