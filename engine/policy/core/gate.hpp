// The gate: one price for all draft tokens of a step (docs/gate.md).
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "cost_model.hpp"

namespace specgate::policy {

// What is known of the next step before it is scheduled.
struct Load {
  std::size_t sequences = 0;       // requests that get a token
  std::size_t prefill_tokens = 0;  // prompt tokens that it reads
  std::size_t context_tokens = 0;  // in the KV cache of its sequences
  std::size_t waiting = 0;         // requests that it delays without giving them a token
  std::size_t read_tokens = 0;     // prompt tokens that the previous step read
  std::optional<std::size_t> room_tokens;  // for drafts; no limit without it
};

// Profiles of times in one unit, and the largest steps.
struct Costs {
  std::vector<Point> steps;         // of a step, by its tokens
  std::vector<Point> passes;        // of a pass of the head, by its sequences
  std::vector<std::size_t> edges;   // numbers of tokens to which steps are padded, rising
  std::size_t most_sequences;       // of a step
  std::size_t longest_draft;        // of a sequence
};

// A step with other drafts than those settled last.
struct Offer {
  double price;
  double gain;  // beyond that of the settled ones, in expected tokens
};

class Gate {
 public:
  // `max_batch_size`: with more sequences nothing is drafted. `least`: the lowest price.
  Gate(Costs costs, std::size_t max_batch_size, double least);

  // Replaces the prior of step times by times measured on this machine, in seconds. Call before
  // anything is observed.
  void believe(std::vector<Point> measured);

  // Takes in what a finished step brought: `sequences` requests got `emitted` tokens, and `drafted`
  // tokens were verified for them.
  void learn(std::size_t sequences, std::size_t drafted, std::size_t emitted);
  // Takes in how verified tokens of the suffix index fared: the sum of the survivals that it had
  // stated, and how many were accepted.
  void learn_trust(double stated, std::size_t accepted);
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
  // Returns what other drafts would make of the step; settles nothing. Reorders `survival`.
  Offer offer(std::span<double> survival) const;
  // Whether the drafts settled last gain more together than verification costs.
  bool buys() const { return missing_ == 0.0; }
  // Returns how many expected tokens a pass of the head over so many sequences has to add to pay:
  // the worth of its time, and what the drafts still lack to pay for verification.
  double cost_of_pass(std::size_t sequences) const;

  // Returns the factor that corrects survivals stated by the suffix index: the ratio of accepted to
  // stated tokens in recent drafts.
  double trust() const;
  // Returns the tokens per unit of time that such a step yields, from recent averages. Its prompt
  // tokens do not count: no accepted token saves their time.
  double goodput() const;
  double price() const { return price_; }
  bool is_limited() const { return load_.sequences > max_batch_size_; }
  const CostModel& steps() const { return steps_; }
  const CostModel& passes() const { return passes_; }

 private:
  double worth_of_time() const;  // tokens that a unit of time must yield
  std::size_t known_tokens() const { return load_.sequences + load_.prefill_tokens; }
  double reach() const;  // most draft tokens that the step could have
  CostModel model_of(std::vector<Point> steps) const;
  Curve::Purchase buy(std::span<double> survival) const;
  void expect_prompts(std::size_t unforeseen);

  Costs costs_;
  CostModel steps_;
  CostModel passes_;
  std::size_t max_batch_size_;
  double least_;
  // Recent averages per sequence and step: tokens that it got, draft tokens verified for it, and
  // the share of steps that verified any.
  double length_ = 1.0;
  double drafted_ = 0.0;
  double verifying_ = 0.0;
  // Recent sums over the index's tokens: survival as stated, and accepted ones.
  double stated_ = 0.0;
  double accepted_ = 0.0;
  Load load_;
  // Prompt tokens of recent steps that were not announced, and the curve of the next step if it is
  // like one of them.
  std::array<double, 32> unforeseen_{};
  std::size_t steps_begun_ = 0;
  Curve ahead_;
  double price_ = 0.0;
  double gain_ = 0.0;     // of the drafts settled last, without verification's time
  double missing_ = 0.0;  // gain that the drafts lack to pay for verification
};

}  // namespace specgate::policy
