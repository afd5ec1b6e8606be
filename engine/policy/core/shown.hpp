// How sure a drafter was of its last proposals.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace specgate::policy {

// The stated survival of the last so many proposals. A drafter is either sure of a token or it is
// not, and only the sure ones are bought: so what the next proposal brings at a price is the mean
// of what these bring, not what their mean brings.
class Shown {
 public:
  // `keep`: what a proposal counts less than the one after it.
  Shown(std::size_t proposals, std::size_t positions, double keep)
      : proposals_(proposals), positions_(positions), keep_(keep) {}

  // `survival` never rises.
  void add(std::span<const double> survival);

  // Bring its ends into the cache: those that most proposals of one request are in.
  void prefetch() const {
    __builtin_prefetch(survival_.data());
    __builtin_prefetch(survival_.data() + survival_.size());
  }

  // What they bring at a price by their first `most` tokens, in tokens above their cost: the sum,
  // where the latest counts most, and of how many.
  struct Sum {
    double gain = 0.0;
    double count = 0.0;
  };
  Sum gain(std::size_t most, double price) const;

 private:
  std::size_t proposals_;
  std::size_t positions_;
  double keep_;
  std::size_t next_ = 0;
  std::vector<float> survival_;  // proposal by proposal, in a ring
};

}  // namespace specgate::policy
