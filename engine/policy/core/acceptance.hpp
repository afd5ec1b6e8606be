// The acceptance rate of a source's draft tokens by position: of one request, or of all.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace specgate::policy {

class PositionAcceptance {
 public:
  // Without a `parent` it holds the rates of all requests, with one those of a single request.
  PositionAcceptance(std::size_t positions, std::shared_ptr<PositionAcceptance> parent,
                     double start);

  std::size_t positions() const { return outcomes_.size(); }
  void prefetch() const { __builtin_prefetch(outcomes_.data()); }

  // Takes in a verified draft: the first `accepted` of its `drafted` tokens were right. The parent
  // learns from it too.
  void learn(std::size_t drafted, std::size_t accepted);

  // Returns the acceptance rate of a position, given that all before it were accepted. It is the
  // mean of a beta posterior whose prior is the parent's rate, or `start`, and counts as four
  // observations.
  double rate(std::size_t at) const;

  // Returns the rate of each position.
  std::vector<double> rates() const;

  // Returns for each position the probability that it and all before it are accepted.
  std::vector<double> survival() const;

 private:
  // Both counts of a position share a cache line: after a model step they are in no cache.
  struct Outcomes {
    double seen = 0.0;
    double accepted = 0.0;
  };

  std::shared_ptr<PositionAcceptance> parent_;
  double start_;
  std::vector<Outcomes> outcomes_;
};

}  // namespace specgate::policy
