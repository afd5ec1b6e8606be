#include "pricing.hpp"

namespace specgate::policy {

std::size_t paying(std::span<const double> survival, double price, double weight) {
  std::size_t length = 0;
  while (length < survival.size() && survival[length] * weight >= price) ++length;
  return length;
}

double worth(std::span<const double> survival, double price) {
  double gain = 0.0;
  for (const double chance : survival.first(paying(survival, price))) gain += chance - price;
  return gain;
}

}  // namespace specgate::policy
