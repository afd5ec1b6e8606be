// Finds the kernels that this processor supports.
#include "instructions.hpp"

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

}  // namespace

Tiles find_tiles() {
  static const Tiles tiles = ask_for_tiles();
  return tiles;
}

bool are_pairs_fast() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  return !__builtin_cpu_is("intel");
#else
  return false;
#endif
}

std::vector<const Instructions*> find_instructions() {
  std::vector<const Instructions*> found;
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f")) {
    if (__builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512bw")) {
      if (find_tiles() == Tiles::kUsable) found.push_back(&kAmx);
      found.push_back(&kAvx512BFloat16);
    }
    found.push_back(&kAvx512);
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) found.push_back(&kAvx2);
#endif
  return found;
}

}  // namespace specgate::kernels
