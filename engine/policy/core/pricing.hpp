// The value of a draft at a price.
#pragma once

#include <cstddef>
#include <span>

namespace specgate::policy {

// Returns how many leading tokens of a draft have survival * weight >= price. `survival` must not
// rise.
std::size_t paying(std::span<const double> survival, double price, double weight = 1.0);

// Returns the gain of those tokens: the sum of survival - price.
double worth(std::span<const double> survival, double price);

}  // namespace specgate::policy
