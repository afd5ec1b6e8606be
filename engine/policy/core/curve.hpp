// What a step takes by its tokens, and which draft tokens are worth that.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace specgate::policy {

// A step or a pass of so many tokens or rows takes `time`, in any unit.
struct Point {
  double at;
  double time;
};

// Straight between points, and behind the last one on with the last slope. It never falls; it may
// bend either way: on CPUs a few tokens more cost most each, on GPUs they come in stairs.
class Curve {
 public:
  // At least one point, rising in `at`; a time below the one before it counts as that.
  explicit Curve(std::span<const Point> points);

  // What a step of so many tokens takes.
  double time(double tokens) const;

  // What a step takes in the mean if it turns out to have one of so many tokens more, each as likely.
  Curve beside(std::span<const double> more) const;

  // What one of up to `most` further tokens adds at the least: the lowest mean of any number of
  // them. 0 where `most` is.
  double cheapest(double tokens, double most) const;

  // Buy for a step of so many tokens: of all numbers of them, surest first, the one that brings
  // most beyond `worth` times what it takes. At most `most`, and none below `least`. Equals stay
  // together. Puts `survival` into another order.
  struct Terms {
    double worth;      // of a unit of time
    double least;      // survival
    std::size_t most;  // tokens
    double reach;      // tokens
  };
  struct Purchase {
    // Parts what is bought from what is not: near what one of the next `reach` tokens adds; nothing
    // where all is bought.
    std::optional<double> price;
    double gain;  // what is bought brings so many tokens beyond what it takes
  };
  Purchase settle(std::span<double> survival, std::size_t tokens, const Terms& terms) const;

 private:
  // `time` of arguments that rise, without a search for each.
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
