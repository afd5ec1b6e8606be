// Finds the kernels that this processor supports.
#include "instructions.hpp"

#include <cstdlib>
#include <cstring>

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

// The best instruction set that tests want to be used, or null.
const char* wanted_by_tests() { return std::getenv("TEST_SPECGATE_INSTRUCTIONS"); }

bool are_same(const char* left, const char* right) { return std::strcmp(left, right) == 0; }

}  // namespace

Tiles find_tiles() {
  static const Tiles tiles = ask_for_tiles();
  return tiles;
}

bool are_pairs_fast() {
#if defined(__x86_64__)
  if (wanted_by_tests() != nullptr) return are_same(wanted_by_tests(), "avx512_bf16");
  __builtin_cpu_init();
  return !__builtin_cpu_is("intel");
#else
  return false;
#endif
}

std::vector<const Instructions*> find_instructions() {
  std::vector<const Instructions*> found;
#if defined(__x86_64__)
  const char* const wanted = wanted_by_tests();
  bool is_reached = wanted == nullptr;
  const auto add = [&](const char* name, const Instructions& instructions, bool is_here) {
    const bool is_wanted = wanted != nullptr && are_same(name, wanted);
    is_reached |= is_wanted && is_here;  // tests that want what is missing get nothing
    if (is_reached && is_here) found.push_back(&instructions);
  };
  __builtin_cpu_init();
  const bool has_avx512 = __builtin_cpu_supports("avx512f") != 0;
  const bool has_pairs = has_avx512 && __builtin_cpu_supports("avx512bf16") != 0 &&
                         __builtin_cpu_supports("avx512bw") != 0;
  add("amx", kAmx, has_pairs && find_tiles() == Tiles::kUsable);
  add("avx512_bf16", kAvx512BFloat16, has_pairs);
  add("avx512", kAvx512, has_avx512);
  add("avx2", kAvx2, __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0);
#endif
  return found;
}

}  // namespace specgate::kernels
