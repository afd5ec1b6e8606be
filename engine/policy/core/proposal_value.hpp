// The value of a drafter's proposals for one request, learnt from those it made before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "acceptance.hpp"
#include "confidence.hpp"
#include "second_opinion.hpp"
#include "expected_gain.hpp"

namespace specgate::policy {

// What is known of a drafter from all requests.
struct DrafterHistory {
  explicit DrafterHistory(std::size_t positions, bool calibrated);

  std::shared_ptr<PositionAcceptance> acceptance;
  std::unique_ptr<ConfidenceCalibration> calibration;  // null if it states no probabilities
  SecondOpinion opinion;
  ExpectedGain recent_gain;
};

// A proposal is scored by the tokens that come, whether it was drafted or not.
class ProposalValue {
 public:
  explicit ProposalValue(std::shared_ptr<DrafterHistory> history);

  // Returns the gain, as in `worth`, that the next proposal is expected to bring at a price.
  double expected_gain(std::size_t most, double price) const;

  // Takes in a proposal and returns the survival of its tokens.
  std::vector<double> propose(std::span<const std::int32_t> tokens,
                              std::optional<std::span<const double>> confidence);

  // Returns the expected gain of a proposal beside another drafter's draft, whose first token has
  // survival `first`.
  double expected_gain_beside(double first) const { return history_->opinion.gain(first); }

  // Compares the last proposal with another drafter's draft and corrects the survival of both.
  SecondOpinion::Weighed weigh(const Proposal& draft);

  // Takes in what the proposal brought beside such a draft.
  void learn_gain(double first, double gain) { history_->opinion.note(first, gain); }

  // Prefetches what the other calls read.
  void prefetch() const;

  // Scores the last proposal by the tokens that came, and forgets it.
  void learn(std::span<const std::int32_t> sampled);

 private:
  std::shared_ptr<DrafterHistory> history_;
  PositionAcceptance acceptance_;
  ExpectedGain recent_gain_;
  std::vector<std::int32_t> tokens_;
  std::vector<double> confidence_;
  std::vector<double> rates_;  // acceptance rates with which `confidence_` was calibrated
  std::vector<double> survival_;
  std::vector<SecondOpinion::Comparison> comparisons_;
};

}  // namespace specgate::policy
