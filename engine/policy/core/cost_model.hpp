// The time of a step, learnt from measured steps (docs/adr/0020).
//
//   time = base(tokens) + context_tokens * k + verification(sequences)
//   base = profile(tokens) * exp(c(tokens))
//   verification = base(sequences) * v, if any draft is verified
//
// `c` is piecewise linear between knots, one per octave. Steps are padded to the next of the `edges`
// (captured CUDA graphs, tiles of a kernel), so tokens count as the edge above them. A Kalman filter
// on the logarithm of the measured time estimates c, log k and v. Its prior says that c and log k
// mostly move together (the machine becomes slower), and that neighbouring knots move together more
// than distant ones (the curve has another shape). So one slow step moves the whole curve, and a few
// different steps bend it.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "curve.hpp"

namespace specgate::policy {

class CostModel {
 public:
  // `profile`: the prior, with `at` rising from 1, in any unit. `longest`: tokens up to which the
  // curve is corrected; the correction of the last knot applies beyond it. `edges`: numbers of tokens
  // to which steps are padded, rising; larger steps are not padded.
  CostModel(std::vector<Point> profile, std::size_t longest,
            std::span<const std::size_t> edges = {});

  // Returns the time of a step that verifies nothing: in the profile's unit until the first
  // `observe`, then in seconds. It never falls with more tokens or more context.
  double time(double tokens, double context_tokens) const;

  // Returns the time that verification adds to a step of so many sequences, however many draft
  // tokens it has; at least 0.
  double verification(double sequences) const;

  // Returns the time of steps without context.
  const Curve& curve() const { return curve_; }

  // Returns those times at the knots and at the profile's points.
  const std::vector<Point>& points() const { return points_; }

  // Takes in a measured step and returns the time that was expected, in seconds. `verifying`: the
  // number of its sequences if it verified drafts, else 0. Ignores invalid numbers: a time of 0 or
  // less, NaN, infinity.
  double observe(double tokens, double context_tokens, double seconds, double verifying = 0.0);

  // Whether a step was observed, and how many seconds a unit of the profile was in the first one.
  bool is_measured() const { return unit_ > 0.0; }
  double unit() const { return unit_; }

  // Sets the profile's unit, as the first measured step does.
  void set_unit(double seconds);

 private:
  static constexpr std::size_t kMostKnots = 24;
  static constexpr std::size_t kMostStates = kMostKnots + 2;
  using Row = std::array<double, kMostStates>;

  // A number of tokens between two neighbouring knots.
  struct Place {
    std::size_t knot;
    double next;  // weight of the next knot
  };

  Place place(double tokens) const;
  double padded(double tokens) const;  // the tokens that such a step computes
  double profile(double tokens) const;
  double correction(double tokens) const;
  double base(double tokens) const;           // before it is made to rise
  double highest_up_to(double tokens) const;  // the argument up to `tokens` with the highest base
  double of_context(double context_tokens) const;
  void forget();
  void doubt();
  void drift(double scale, double shape);  // adds variance
  void cap();
  void rebuild();

  std::vector<Point> profile_;
  std::vector<double> edges_;
  std::size_t knots_ = 0;
  std::size_t states_;   // the knots, log k and v
  double context_unit_;  // prior of k, in the profile's unit
  Row state_{};
  std::array<Row, kMostStates> shape_{};   // prior covariance, without that of the scale
  std::array<Row, kMostStates> spread_{};  // covariance of the state
  double noise_;                           // variance of the logarithm of a step's time
  double streak_ = 0.0;                    // surprises in the same direction, decaying
  double unit_ = 0.0;
  std::vector<Point> based_;   // `base` at the points of `points_`
  std::vector<Point> points_;
  Curve curve_;
};

}  // namespace specgate::policy
