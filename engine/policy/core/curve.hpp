// The time of a step as a function of its tokens, and which draft tokens are worth that time.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace specgate::policy {

// A step of `at` tokens, or a pass over `at` sequences, takes `time`, in any unit.
struct Point {
  double at;
  double time;
};

// Piecewise linear, and extended beyond the last point with the last slope. It never falls, but may
// bend either way: on CPUs the first few tokens cost most, on GPUs the curve is a staircase.
class Curve {
 public:
  // At least one point, with strictly rising `at`. A time below the one before is raised to it.
  explicit Curve(std::span<const Point> points);

  // Returns the time of a step.
  double time(double tokens) const;

  // Returns the mean curve if a step turns out to have one of these numbers of extra tokens, all
  // equally likely.
  Curve beside(std::span<const double> more) const;

  // Returns the lowest time per token of adding 1 to `most` tokens to a step: the minimum over n of
  // (time(tokens + n) - time(tokens)) / n. 0 if `most` is 0.
  double cheapest(double tokens, double most) const;

  // Chooses draft tokens for a step that computes `tokens` anyway. In descending order of survival
  // it takes the number of tokens with the largest gain:
  //
  //   gain(n) = sum of the n highest survivals - worth * (time(tokens + n) - time(tokens))
  //
  // At most `most` tokens, none with a survival below `least`, and tokens of equal survival all or
  // none. Reorders `survival`.
  struct Terms {
    double worth;      // tokens per unit of time
    double least;      // survival
    std::size_t most;  // tokens
    double reach;      // tokens over which the price of the next one is averaged
  };
  struct Purchase {
    // Separates bought tokens from the rest; close to the cost of one of the next `reach` tokens.
    // Empty if all are bought.
    std::optional<double> price;
    double gain;  // of the bought tokens
  };
  Purchase settle(std::span<double> survival, std::size_t tokens, const Terms& terms) const;

 private:
  // `time` for rising arguments, without a search for each.
  class Walk {
   public:
    explicit Walk(const Curve& curve) : curve_(curve) {}
    double time(double tokens);

   private:
    const Curve& curve_;
    std::size_t point_ = 0;
  };

  double slope_behind(std::size_t point) const;

  std::vector<Point> points_;
};

}  // namespace specgate::policy
