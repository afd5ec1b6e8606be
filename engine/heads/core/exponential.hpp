// The exponential function in a form that compilers can vectorise.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace specgate::heads {

// e^x with a relative error of about 1e-6, for results from 1e-38 to 1e38; clamped outside.
//
// e^x = 2^n * 2^f with n an integer and |f| <= 1/2. 2^n is an exponent; 2^f = e^(f ln 2) is
// computed by a Taylor polynomial.
inline float exponential(float x) {
  constexpr float kLog2E = 1.44269504f, kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds
  const float power = std::clamp(x * kLog2E, -126.0f, 126.0f);
  const float whole = (power + kRound) - kRound;
  const float rest = (power - whole) * 0.693147181f;
  const float series =
      1.0f +
      rest * (1.0f +
              rest * (0.5f + rest * (1.0f / 6 + rest * (1.0f / 24 + rest * (1.0f / 120 +
                                                                            rest / 720)))));
  const auto exponent = (static_cast<std::int32_t>(whole) + 127) << 23;
  return series * std::bit_cast<float>(exponent);
}

}  // namespace specgate::heads
