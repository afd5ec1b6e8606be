// The gate: one price for all draft tokens of a step (docs/gate.md).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "cost_model.hpp"
#include "step_rate.hpp"
#include "source_floor.hpp"

namespace specgate::policy {

// Sources whose tokens are counted separately; codes as in engine/drafting/origin.py.
enum Drafter : std::uint8_t { kBySuffix = 1, kByHead = 2, kByNative = 3 };
constexpr std::size_t kDraftersEnd = 4;

// What is known of the next step before it is scheduled.
struct Load {
  std::size_t sequences = 0;       // requests that get a token
  std::size_t prefill_tokens = 0;  // prompt tokens that it reads
  std::size_t context_tokens = 0;  // in the KV cache of its sequences
  std::size_t waiting = 0;         // requests that it delays without giving them a token
  std::size_t read_tokens = 0;     // prompt tokens that the previous step read
  std::optional<std::size_t> room_tokens;  // for drafts in the KV cache; no limit without it
};

// The operator's limits.
struct Limits {
  std::size_t max_batch_size = SIZE_MAX;  // with more sequences nothing is drafted
  double min_acceptance_ratio = 0.0;      // of each source
};

class Gate {
 public:
  // `steps`: the profile of a step's time by its tokens; `passes`: of a head pass by its sequences,
  // in the same unit. `longest`: most tokens of a step. `least`: the lowest price.
  Gate(std::vector<Point> steps, std::vector<Point> passes, std::size_t longest,
       std::size_t most_sequences, std::size_t longest_draft, const Limits& limits, double least);

  // Takes in what a finished step brought: `sequences` requests got `emitted` tokens; `drafted`
  // tokens were verified for them, and the sum of their survivals was `expected`.
  void learn(std::size_t sequences, std::size_t drafted, std::size_t emitted, double expected);
  // Takes in the outcome of one source's tokens in that step.
  void learn_source(Drafter source, std::size_t drafted, std::size_t accepted);
  // Takes in how long a step took, in seconds, without the head's pass. Returns the expected time.
  // `verifying`: the number of its sequences if any draft was verified, else 0.
  double observe_step(std::size_t tokens, std::size_t context_tokens, double seconds,
                      std::size_t verifying);
  // Takes in how long a pass of the head took, in seconds.
  void observe_head(std::size_t sequences, double seconds);

  // Starts a step: drafts will be chosen for it.
  void begin(const Load& load);

  // Returns a lower bound of the step's price.
  double floor() const;
  // Returns the price that separates the draft tokens worth verifying from the others, given the
  // survival of all of them. Reorders `survival`.
  double settle(std::span<double> survival);
  // Whether the drafts settled last gain more together than verification costs.
  bool buys() const { return buys_; }
  // Returns how many expected tokens a pass of the head over so many sequences has to add to pay.
  double cost_of_pass(std::size_t sequences) const;
  // Returns the survival that a source's tokens need, whatever the price.
  double least(Drafter source) const { return floors_[source].least(); }

  // Returns the weight of a request's tokens (StepRate). Survivals are multiplied by it before they
  // are settled and compared with the price.
  double token_weight(const StepRate& rate) const { return rate.token_weight(length_); }

  // Returns the tokens per unit of time that such a step yields, from recent averages. Its prompt
  // tokens do not count: no accepted token saves their time.
  double goodput() const;
  double price() const { return price_; }
  // Returns the ratio of expected to accepted tokens in recent drafts.
  double expected_over_accepted() const;
  bool is_probing() const { return probing_ || plain_; }
  bool is_limited() const { return load_.sequences > limits_.max_batch_size; }
  const CostModel& steps() const { return steps_; }
  const CostModel& passes() const { return passes_; }

 private:
  double worth_of_time() const;  // tokens that a unit of time must yield
  double worth() const;          // the same times `expected_over_accepted`
  std::size_t known_tokens() const { return load_.sequences + load_.prefill_tokens; }
  std::size_t room() const;
  void expect(std::size_t unforeseen);
  double reach() const;  // most draft tokens that the step could have
  bool is_bought(double gain);

  CostModel steps_;
  CostModel passes_;
  std::size_t longest_draft_;
  Limits limits_;
  double least_;
  std::array<SourceFloor, kDraftersEnd> floors_;
  // Recent averages per sequence and step: tokens that it got, and draft tokens verified for it.
  double length_ = 1.0;
  double drafted_ = 0.0;
  // Recent sums: draft tokens expected to be accepted, and those that were.
  double expected_ = 0.0;
  double accepted_ = 0.0;
  std::array<bool, kDraftersEnd> seen_{};  // sources with tokens in the last step
  Load load_;
  // Prompt tokens of recent steps that were not announced, and the curve of the next step if it is
  // like one of them.
  std::array<double, 32> unforeseen_{};
  std::size_t steps_begun_ = 0;
  Curve ahead_;
  double price_ = 0.0;
  bool buys_ = true;
  double missing_ = 0.0;       // gain that the drafts lack to pay for verification
  double verifying_ = 0.0;     // recent share of sequences in steps that verified drafts
  std::size_t idle_ = 0;       // steps since the last with drafts
  std::size_t most_idle_;      // after so many of them a probe is made
  std::size_t drafting_ = 0;   // measured steps since the last without drafts
  std::size_t most_drafting_;  // after so many of them a plain step is made
  bool probing_ = false;       // this step drafts some tokens to measure their cost
  bool plain_ = false;         // this step drafts none, to measure its cost without
};

}  // namespace specgate::policy
