// Keeps the tokens of a source from being accepted less often than an operator allows.
#pragma once

#include <cstddef>

namespace specgate::policy {

// A breaker that opens as far as it has to: what is drafted of a source has to reach a survival,
// which rises with each token that is refused beyond what the ratio allows and falls with each that
// is accepted. So the least sure tokens go first; above 1 nothing is left, and time lowers it until
// the surest are tried again.
class SourceFloor {
 public:
  // `ratio`: accepted of drafted tokens, 0 (never closes) to 1.
  explicit SourceFloor(double ratio) : ratio_(ratio) {}

  // What came of a step's draft tokens of it.
  void learn(std::size_t drafted, std::size_t accepted);

  // A step goes by in which nothing of it is verified.
  void wait();

  // Survival below which nothing of it is drafted; 0: no limit.
  double least() const { return least_; }

 private:
  double ratio_;
  double least_ = 0.0;
};

}  // namespace specgate::policy
