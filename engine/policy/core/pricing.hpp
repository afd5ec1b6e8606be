// What a draft is worth at a price.
#pragma once

#include <cstddef>
#include <span>

namespace specgate::policy {

// How many tokens of a draft are worth the price; `survival` never rises. `count`: what each of
// them counts.
std::size_t paying(std::span<const double> survival, double price, double count = 1.0);

// The gain of the best prefix of a draft, in tokens above their cost.
double worth(std::span<const double> survival, double price);

}  // namespace specgate::policy
