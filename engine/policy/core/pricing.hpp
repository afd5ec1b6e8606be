// What a draft is worth at a price, and at what price tokens are bought.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace specgate::policy {

// How many tokens of a draft are worth the price; `survival` never rises.
std::size_t paying(std::span<const double> survival, double price);

// The gain of the best prefix of a draft, in tokens above their cost.
double worth(std::span<const double> survival, double price);

// What each further token adds to a step; never falling. In steps of one token.
class Marginals {
 public:
  // Tokens beyond the end of `added` add as much as the last one.
  explicit Marginals(std::vector<double> added);

  double at(std::size_t tokens) const;

  // The time of a step that verifies so many.
  double time(std::size_t tokens) const;

  // Buy for a step of so many tokens, surest first, while `survival` is at least `worth` times
  // what the token adds. The price that parts what is bought from what is not; nothing where all
  // of it is bought. Puts `survival` into another order.
  std::optional<double> settle(std::span<double> survival, std::size_t tokens, double worth) const;

 private:
  std::vector<double> added_;
  std::vector<double> times_;  // of steps of 1, 2, ... tokens
};

}  // namespace specgate::policy
