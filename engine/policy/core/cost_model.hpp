// How long a step takes, learnt from steps (docs/adr/0020).
//
//   time = base(tokens) + context_tokens * k + verification(rows)
//   base = profile(tokens) * exp(c(tokens))
//   verification = base(rows) * (v + w * log2(rows) / 4), if any draft is verified
//
// `c` is straight between knots, one an octave and later four. It, log k, v and w are followed by
// a Kalman filter of the logarithm of the measured time: its prior says that c and log k mostly
// move together (the machine is slower), and near knots more than far ones (the curve has another
// shape). So one slow step moves the whole curve, and a few different ones bend it.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "curve.hpp"

namespace specgate::policy {

class CostModel {
 public:
  // `profile`: what is believed before anything is measured; rising in `at` from 1, in any unit.
  // `longest`: most tokens that matter; beyond them the correction of the last knot holds.
  CostModel(std::vector<Point> profile, std::size_t longest);

  // The time of a step that verifies nothing; in the profile's unit until `observe`, then in
  // seconds. Never falls with more tokens or more context.
  double time(double tokens, double context_tokens) const;

  // What a step of so many rows takes longer if it verifies drafts, whatever their number; never
  // below 0. And the standard deviation of what is believed of it, in the same unit.
  double verification(double rows) const;
  double verification_doubt(double rows) const;

  // What a step without context takes.
  const Curve& curve() const { return curve_; }

  // The time of steps without context at the knots and at the profile's points.
  const std::vector<Point>& points() const { return points_; }

  // Take a measured step in; what was expected of it, in seconds. `verifying`: its rows, if it
  // verified drafts. Numbers that are no measurement (below 0, no number) are left out.
  double observe(double tokens, double context_tokens, double seconds, double verifying = 0.0);

  // Whether a step was taken in, and how many seconds the profile's unit is by the first one.
  bool is_measured() const { return unit_ > 0.0; }
  double unit() const { return unit_; }

  // Read the profile in this unit, as if a measured step had shown it.
  void set_unit(double seconds);

 private:
  static constexpr std::size_t kMostKnots = 47;
  static constexpr std::size_t kMostStates = kMostKnots + 3;
  using Row = std::array<double, kMostStates>;

  // The share of two neighbouring knots in the correction of so many tokens.
  struct Place {
    std::size_t knot;
    double next;  // share of the knot behind it
  };

  Place place(double tokens) const;
  double profile(double tokens) const;
  double correction(double tokens) const;
  double base(double tokens) const;  // of a step without context, before it is made to rise
  double highest_up_to(double tokens) const;  // the tokens, up to so many, of which that is highest
  double of_context(double context_tokens) const;
  double verified(double rows) const;  // of a plain step of so many rows; maybe below 0
  void forget();
  void doubt();
  void drift(double scale, double shape);  // know that much less
  void cap();
  void rebuild();

  std::vector<Point> profile_;
  std::size_t knots_ = 0;
  std::size_t states_;             // the knots, log k, v and w
  double context_unit_;            // k before anything is known, in the profile's unit
  Row state_{};
  std::array<Row, kMostStates> shape_{};   // covariance at first, without that of the scale
  std::array<Row, kMostStates> spread_{};  // and now
  double noise_;                   // variance of the logarithm of a step's time
  double streak_ = 0.0;            // of surprises to one side
  double seen_ = 0.0;              // tokens of the largest step of late
  double unit_ = 0.0;
  std::vector<Point> based_;   // `base` at the same places as `points_`
  std::vector<Point> points_;
  Curve curve_;
};

}  // namespace specgate::policy
