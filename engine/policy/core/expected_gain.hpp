// The expected gain of a drafter's next proposal, from its recent ones.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace specgate::policy {

// Keeps the stated survival of recent proposals. Drafters are certain of some proposals and not of
// others, and only the certain ones are bought. So the expected gain at a price is the mean of the
// gains of these proposals, not the gain of their mean.
class ExpectedGain {
 public:
  // `keep`: weight of a proposal relative to the next one.
  ExpectedGain(std::size_t proposals, std::size_t positions, double keep)
      : proposals_(proposals), positions_(positions), keep_(keep) {}

  // Adds a proposal. `survival` must not rise.
  void add(std::span<const double> survival);

  // Prefetches both ends of the buffer: for one request that is most of it.
  void prefetch() const {
    __builtin_prefetch(survival_.data());
    __builtin_prefetch(survival_.data() + survival_.size());
  }

  // Returns the weighted sum of the gains of the first `most` tokens of each proposal at a price,
  // and the sum of the weights. The latest proposal has weight 1.
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
  std::vector<float> survival_;  // a ring of proposals
};

}  // namespace specgate::policy
