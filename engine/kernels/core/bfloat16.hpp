// bfloat16 numbers: the upper half of float32. Also for engine/heads/core.
//
// Everything here is inlined always: a copy that was compiled for one processor could otherwise be
// called on another.
#pragma once

#include <cstddef>
#include <cstdint>

namespace specgate {

struct BFloat16 {
  std::uint16_t bits;
};

// Two neighbouring numbers, as bfloat16 instructions take them.
struct alignas(4) Pair {
  BFloat16 first;
  BFloat16 second;
};

[[gnu::always_inline]] inline float widen(float number) { return number; }

[[gnu::always_inline]] inline float widen(BFloat16 number) {
  return __builtin_bit_cast(float, static_cast<std::uint32_t>(number.bits) << 16);
}

[[gnu::always_inline]] inline void widen(const BFloat16* numbers, std::size_t count,
                                         float* floats) {
  for (std::size_t i = 0; i < count; ++i) floats[i] = widen(numbers[i]);
}

[[gnu::always_inline]] inline void narrow(float number, float& into) { into = number; }

// Rounds to nearest, ties to even; NaN stays NaN.
[[gnu::always_inline]] inline void narrow(float number, BFloat16& into) {
  const auto bits = __builtin_bit_cast(std::uint32_t, number);
  const std::uint32_t rounded = bits + 0x7fff + (bits >> 16 & 1);
  const bool is_number = number == number;
  into.bits = static_cast<std::uint16_t>((is_number ? rounded : bits | 0x400000) >> 16);
}

}  // namespace specgate
