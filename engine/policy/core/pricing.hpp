// The value of a draft at a price.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

namespace specgate::policy {

// Returns how many leading tokens of a draft have at least this survival. `survival` must not rise.
inline std::size_t paying(std::span<const double> survival, double price) {
  const auto end = std::ranges::find_if(survival, [&](double each) { return !(each >= price); });
  return static_cast<std::size_t>(end - survival.begin());
}

// Returns the gain of those tokens: the sum of survival - price.
inline double worth(std::span<const double> survival, double price) {
  double gain = 0.0;
  for (const double chance : survival.first(paying(survival, price))) gain += chance - price;
  return gain;
}

}  // namespace specgate::policy
