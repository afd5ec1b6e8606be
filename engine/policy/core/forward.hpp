// A drafter that needs a forward pass (a draft head, vLLM's own drafter): what its proposals are
// worth, learnt from earlier ones, and when to run it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "calibration.hpp"
#include "second_opinion.hpp"

namespace specgate::policy {

// The stated survival of the latest proposals, oldest first to go. A drafter is sure of some
// proposals and not of others, and only tokens that it is sure of are bought. So the gain to expect
// is the mean gain of these proposals, not the gain of a mean one.
class Latest {
 public:
  // `keep`: weight of a proposal relative to the next one.
  Latest(std::size_t proposals, std::size_t positions, double keep)
      : proposals_(proposals), positions_(positions), keep_(keep) {}

  void add(std::span<const double> survival);
  void prefetch() const {
    __builtin_prefetch(survival_.data());
    __builtin_prefetch(survival_.data() + survival_.size());
  }

  // Returns the weighted mean, over these proposals and a prior one of weight kPriorProposals, of
  // what their first `most` tokens gain at a price beyond a gain of `had`. `prior`: that of the
  // prior one.
  double gain(std::size_t most, double price, double had, double prior) const;

 private:
  std::size_t proposals_;
  std::size_t positions_;
  double keep_;
  std::size_t next_ = 0;
  std::vector<float> survival_;  // a ring
};

// What is known of a drafter from all requests of a kind.
struct DrafterHistory {
  DrafterHistory(std::size_t positions, bool calibrated);

  std::shared_ptr<PositionAcceptance> acceptance;
  std::optional<ConfidenceCalibration> calibration;  // if it states probabilities
  SecondOpinion opinion;
  Latest latest;
};

// A drafter's proposals for one request. Each is scored by the tokens that come, verified or not.
class Proposals {
 public:
  explicit Proposals(std::shared_ptr<DrafterHistory> history);

  // Returns the survival of the latest proposal's tokens, as an example of the next one.
  std::vector<double> example() const { return survival_.empty() ? usual() : survival_; }

  // Returns the survival of a proposal of which nothing is known: it follows from the rates of
  // acceptance by position.
  std::vector<double> usual() const;

  // Returns the gain (`worth`) to expect of the next proposal at a price, beyond the gain `had` of
  // a draft that it would replace.
  double expected_gain(std::size_t most, double price, double had = 0.0) const;

  // Takes in a proposal and returns the survival of its tokens.
  std::vector<double> propose(std::span<const std::int32_t> tokens,
                              std::optional<std::span<const double>> confidence);

  // Compares the last proposal with another drafter's draft and corrects the survival of both.
  SecondOpinion::Weighed weigh(const StatedDraft& draft);

  // Scores the last proposal by the tokens that came, and forgets it.
  void learn(std::span<const std::int32_t> sampled);
  // Takes in how a proposal fared whose tokens were not known here, as far as it was verified.
  void learn_verified(std::size_t verified, std::size_t accepted);

  // Prefetches what the other calls read.
  void prefetch() const;

 private:
  std::shared_ptr<DrafterHistory> history_;
  PositionAcceptance acceptance_;
  Latest latest_;
  std::vector<std::int32_t> tokens_;
  std::vector<double> confidence_;
  std::vector<double> rates_;  // with which `confidence_` was calibrated
  std::vector<double> survival_;
  std::vector<SecondOpinion::Comparison> comparisons_;
};

class ForwardDrafter {
 public:
  // `most`: tokens of a proposal at most; 0: there is no such drafter. `calibrated`: it states a
  // probability for each token. `probe_steps`: where it does not pay it is tried every so many
  // steps; after four tries in vain at half that rate, after four more at a third.
  ForwardDrafter(std::size_t most, bool calibrated, int probe_steps);

  std::size_t most() const { return most_; }

  // Returns the proposals of a new request with this sampling temperature. Greedy text is guessed
  // more often than sampled text, so requests learn from those of similar temperature.
  Proposals proposals(double temperature) const;

  // Returns whether to run it in this step. Call once per step. The first steps are tries: only
  // outcomes tell what it is worth.
  bool runs(bool pays);

  // Returns for which of `sequences` to run it in a try: a few, rotating, in ascending order.
  std::vector<std::size_t> trial(std::size_t sequences) const;

 private:
  std::size_t most_;
  int probe_steps_;
  int idle_ = 0;  // steps since it paid or was tried
  int tries_;     // since it last paid
  std::array<std::shared_ptr<DrafterHistory>, 3> history_;  // by temperature: 0, low, high
};

}  // namespace specgate::policy
