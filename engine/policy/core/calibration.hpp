// How often draft tokens are accepted, learnt from those that were: rates by position, and the
// calibration of probabilities that a drafter states itself.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace specgate::policy {

// Returns log(p / (1 - p)), with p at least 0.001 from 0 and 1: more says nothing. NaN counts as 0.
double logit(double chance);

// A logistic model of three features, fitted online with AdaGrad (Duchi, Hazan and Singer, JMLR
// 2011) over the latest outcomes.
struct Logistic {
  using Features = std::array<double, 3>;

  Features weights;
  Features squares{1.0, 1.0, 1.0};  // recent sums of squared gradients

  double chance(const Features& features) const;
  void learn(const Features& features, bool right);
};

// The acceptance rate of a drafter's tokens by position: of one request, or of all.
class PositionAcceptance {
 public:
  // Without a `parent` it holds the rates of all requests, with one those of a single request.
  explicit PositionAcceptance(std::size_t positions,
                              std::shared_ptr<PositionAcceptance> parent = nullptr);

  std::size_t positions() const { return outcomes_.size(); }
  void prefetch() const { __builtin_prefetch(outcomes_.data()); }

  // Takes in a draft: the first `accepted` of its `drafted` tokens were right. The parent learns
  // from it too.
  void learn(std::size_t drafted, std::size_t accepted);

  // Returns the acceptance rate of each position, given that all before it were accepted: the mean
  // of a beta posterior whose prior is the parent's rate (one half without a parent) and counts as
  // four outcomes.
  std::vector<double> rates() const;

 private:
  // Both counts of a position share a cache line: after a model step they are in no cache.
  struct Outcomes {
    double seen = 0.0;
    double accepted = 0.0;
  };

  double rate(std::size_t at) const;

  std::shared_ptr<PositionAcceptance> parent_;
  std::vector<Outcomes> outcomes_;
};

// Calibrates a drafter's own probabilities: a logistic model for each position, of their logit and
// the logit of the position's recent acceptance rate.
class ConfidenceCalibration {
 public:
  explicit ConfidenceCalibration(std::size_t positions);

  // Returns for each token the probability that it and all before it are accepted; as long as the
  // shortest of the arguments and the number of positions.
  std::vector<double> survival(std::span<const double> confidence,
                               std::span<const double> rates) const;

  // Takes in a draft whose first `right` tokens were accepted. The arguments are as in `survival`,
  // for the tokens whose outcome is known.
  void learn(std::span<const double> confidence, std::span<const double> rates, std::size_t right);

 private:
  std::vector<Logistic> models_;
};

}  // namespace specgate::policy
