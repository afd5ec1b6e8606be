// Keeps a source's acceptance ratio above the operator's minimum.
#pragma once

#include <cstddef>

namespace specgate::policy {

// A threshold on survival for the tokens of one source. It rises with each token rejected beyond
// what the ratio allows and falls with each accepted one, so the least certain tokens are dropped
// first. Above 1 the source drafts nothing; the threshold then decays until its most certain tokens
// are tried again.
class SourceFloor {
 public:
  // `ratio`: least accepted tokens per drafted token, 0 (no limit) to 1.
  explicit SourceFloor(double ratio) : ratio_(ratio) {}

  // Takes in how many of the source's tokens a step drafted and accepted.
  void learn(std::size_t drafted, std::size_t accepted);

  // Takes in a step that verified none of the source's tokens.
  void wait();

  // Returns the survival that the source's tokens need. 0: no limit.
  double least() const { return least_; }

 private:
  double ratio_;
  double least_ = 0.0;
};

}  // namespace specgate::policy
