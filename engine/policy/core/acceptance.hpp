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

  std::size_t positions() const { return seen_.size(); }

  // One verified draft: `accepted` of its `drafted` tokens were right. The parent learns too.
  void learn(std::size_t drafted, std::size_t accepted);

  // For each position how often it is accepted, given that all before it are. What was not seen yet
  // is taken from the parent: a beta prior around its mean.
  std::vector<double> rates() const;

  // For each position the chance that it and all before it are accepted.
  std::vector<double> survival() const;

 private:
  std::shared_ptr<PositionAcceptance> parent_;
  double start_;
  std::vector<double> seen_;
  std::vector<double> accepted_;
};

}  // namespace specgate::policy
