// Whether the gate is open or shut on average. For logs and reports; brief changes do not count.
#pragma once

namespace specgate::policy {

// Tracks the share of steps that drafted among those that could have. The gate counts as shut when
// an exponential average over some 64 steps falls below 5 %, and as open again above 25 %.
class Regime {
 public:
  bool is_open() const { return is_open_; }

  // Takes in a step. Returns whether that changed `is_open`.
  bool learn(bool drafted);

 private:
  bool is_open_ = true;
  double share_ = 1.0;
};

}  // namespace specgate::policy
