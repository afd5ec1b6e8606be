// How often a source's draft tokens are accepted, by position: of one request and of all.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace specgate::policy {

class PositionAcceptance {
 public:
  // Of all requests without a `parent`; of one request with it.
  PositionAcceptance(std::size_t positions, std::shared_ptr<PositionAcceptance> parent,
                     double start);

  std::size_t positions() const { return outcomes_.size(); }
  void prefetch() const { __builtin_prefetch(outcomes_.data()); }

  // One verified draft: `accepted` of its `drafted` tokens were right. The parent learns too.
  void learn(std::size_t drafted, std::size_t accepted);

  // How often a position is accepted, given that all before it are. What was not seen yet is taken
  // from the parent: a beta prior around its mean.
  double rate(std::size_t at) const;

  // That of each position.
  std::vector<double> rates() const;

  // For each position the chance that it and all before it are accepted.
  std::vector<double> survival() const;

 private:
  // Of one position, side by side: after a model step both are a miss of all caches away.
  struct Outcomes {
    double seen = 0.0;
    double accepted = 0.0;
  };

  std::shared_ptr<PositionAcceptance> parent_;
  double start_;
  std::vector<Outcomes> outcomes_;
};

}  // namespace specgate::policy
