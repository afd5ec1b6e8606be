// bfloat16 numbers: the upper half of float32.
#pragma once

#include <bit>
#include <cstdint>

namespace specgate::kernels {

struct BFloat16 {
  std::uint16_t bits;
};

// Two neighbouring numbers, as bfloat16 instructions take them.
struct alignas(4) Pair {
  BFloat16 first;
  BFloat16 second;
};

inline float widen(float number) { return number; }

inline float widen(BFloat16 number) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(number.bits) << 16);
}

inline void narrow(float number, float& into) { into = number; }

// Rounds to nearest, ties to even; NaN stays NaN.
inline void narrow(float number, BFloat16& into) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(number);
  const std::uint32_t rounded = bits + 0x7fff + (bits >> 16 & 1);
  const bool is_number = number == number;
  into.bits = static_cast<std::uint16_t>((is_number ? rounded : bits | 0x400000) >> 16);
}

}  // namespace specgate::kernels
