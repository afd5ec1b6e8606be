// Powers of two, for floats and vectors of them. Also for engine/heads/core; see bfloat16.hpp.
#pragma once

namespace specgate {

// 2^x for x <= 127; 0 below -126; NaN stays NaN. Seven terms of the power series, for at most half
// an octave: a relative error of 1.2e-7. `Words` are as many int32 as x has floats.
template <class Words, class Floats>
[[gnu::always_inline]] inline Floats power_of_two(Floats x) {
  constexpr float kLeast = -126.0f, kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds
  const Floats clamped = x < kLeast ? Floats{} + kLeast : x;
  const Floats shifted = clamped + kRound;
  const Floats rest = clamped - (shifted - kRound);
  Floats series = rest * 1.54035304e-4f + 1.33335581e-3f;  // (log 2)^n / n!
  series = series * rest + 9.61812911e-3f;
  series = series * rest + 5.55041087e-2f;
  series = series * rest + 2.40226507e-1f;
  series = series * rest + 6.93147181e-1f;
  series = series * rest + 1.0f;
  const Words bits = __builtin_bit_cast(Words, series) +
                     (__builtin_bit_cast(Words, shifted) << 23);  // times 2^(whole part)
  return x < kLeast ? Floats{} : __builtin_bit_cast(Floats, bits);
}

}  // namespace specgate
