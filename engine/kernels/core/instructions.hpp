// The kernels for each instruction set, and what this processor and this system let a process use.
#pragma once

#include <vector>

#include "attention_kernels.hpp"
#include "linear_kernels.hpp"
#include "row_kernels.hpp"

namespace specgate::kernels {

template <class Kernel>
struct One {
  const Kernel* kernel;
};

// The kernels of one instruction set; null where it has none, or was not compiled in.
struct Instructions : One<LinearKernel<float>>,
                      One<LinearKernel<BFloat16>>,
                      One<LinearKernel<Pair>>,
                      One<AttentionKernel<float>>,
                      One<AttentionKernel<BFloat16>>,
                      One<RowKernel<float>>,
                      One<RowKernel<BFloat16>> {};

extern const Instructions kAvx2;
extern const Instructions kAvx512;
extern const Instructions kAvx512BFloat16;
extern const Instructions kAmx;

template <class Kernel>
const Kernel* kernel_of(const Instructions& instructions) {
  return static_cast<const One<Kernel>&>(instructions).kernel;
}

// The instruction sets of this processor, best first. Tests set TEST_SPECGATE_INSTRUCTIONS to amx,
// avx512_bf16, avx512 or avx2, and those before it are left out.
std::vector<const Instructions*> find_instructions();

// The kernels of this processor, best first.
template <class Kernel>
std::vector<const Kernel*> find_kernels() {
  std::vector<const Kernel*> found;
  for (const Instructions* const instructions : find_instructions()) {
    const Kernel* const kernel = kernel_of<Kernel>(*instructions);
    if (kernel != nullptr) found.push_back(kernel);
  }
  return found;
}

// Whether VDPBF16PS takes less time than the two FMA whose work it does. On Intel's processors it
// takes 2.3 cycles, and they take 1.1 (measured on family 6, model 207).
bool are_pairs_fast();

enum class Tiles { kAbsent, kRefused, kUsable };

// Whether bfloat16 can be multiplied by AMX. Linux is asked for permission at the first call.
Tiles find_tiles();

}  // namespace specgate::kernels
