// Whether the gate is by and large open or shut: for people, so that not every flap counts.
#pragma once

namespace specgate::policy {

// Follows the share of steps that drafted, of those in which something could have been drafted. It
// is shut when of some 64 steps of late fewer than 5 % drafted, and open again above 25 %.
class Regime {
 public:
  bool is_open() const { return is_open_; }

  // Take a step in; whether that changed what it is.
  bool learn(bool drafted);

 private:
  bool is_open_ = true;
  double share_ = 1.0;
};

}  // namespace specgate::policy
