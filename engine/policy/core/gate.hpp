// The gate: one price for the draft tokens of a step (gate.py says why, docs/gate.md in a page).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "cost_model.hpp"
#include "pace.hpp"
#include "source_floor.hpp"

namespace specgate::policy {

// Whose tokens are counted apart; as in engine/drafting/origin.py.
enum Drafter : std::uint8_t { kBySuffix = 1, kByHead = 2, kByNative = 3 };
constexpr std::size_t kDraftersEnd = 4;

// A step to come, as far as it is known before it is scheduled.
struct Load {
  std::size_t rows = 0;            // requests that get a token
  std::size_t prefill_tokens = 0;  // of prompts that it reads
  std::size_t context_tokens = 0;  // in the caches of its rows
  std::size_t waiting = 0;         // requests that it delays and gives no token
  std::size_t read_tokens = 0;     // of prompts that the step before it read
  std::optional<std::size_t> room_tokens;  // for drafts in the cache; no limit without it
};

// What an operator allows.
struct Limits {
  std::size_t max_batch_size = SIZE_MAX;  // rows up to which anything is drafted
  double min_acceptance_ratio = 0.0;      // of each source
};

class Gate {
 public:
  // `steps`: the profile of a step by its tokens, `passes`: of a pass of the head by its rows, in
  // the same unit. `longest`: most tokens of a step, `most_rows`: most rows, `longest_draft`: of one.
  // `least`: lowest price, also where tokens cost nothing.
  Gate(std::vector<Point> steps, std::vector<Point> passes, std::size_t longest,
       std::size_t most_rows, std::size_t longest_draft, const Limits& limits, double least);

  // What a finished step brought: `rows` requests got `emitted` tokens, and `drafted` were verified
  // for them, of which `promised` were to be accepted by their survival.
  void learn(std::size_t rows, std::size_t drafted, std::size_t emitted, double promised);
  // Of one source in that step.
  void learn_source(Drafter source, std::size_t drafted, std::size_t accepted);
  // How long a step took, without the head's pass; what was expected. All in seconds.
  // `verifying`: its rows, if any of them had a draft; else 0.
  double observe_step(std::size_t tokens, std::size_t context_tokens, double seconds,
                      std::size_t verifying);
  // How long a pass of the head took.
  void observe_head(std::size_t rows, double seconds);

  // Drafts are to be chosen for such a step.
  void begin(const Load& load);

  // The price of its first draft token; no other is cheaper.
  double floor() const;
  // The price at which the tokens that are bought are those that pay; whether any are, `buys` says.
  // `survival` of all drafts; is put into another order.
  double settle(std::span<double> survival);
  // Whether the drafts that were settled last bring more together than verifying any of them takes.
  bool buys() const { return buys_; }
  // Tokens that a pass of the head over so many rows has to bring, beside what there is.
  double cost_of_pass(std::size_t rows) const;
  // Survival that a token of a source must have whatever the price.
  double least(Drafter source) const { return floors_[source].least(); }

  // What a token counts of a request that gets on so fast; that of the mean one counts 1. Survivals
  // that are settled are to be multiplied by it, and cut where that falls below the price.
  double count(const Pace& pace) const { return pace.count(length_); }

  // Tokens that such a step brings in a unit of time, by what steps of late brought. Without the
  // prompts that are read in it: no accepted token saves their time.
  double goodput() const;
  double price() const { return price_; }
  // What tokens of late promised over what they kept.
  double promise() const;
  bool is_probing() const { return probing_ || plain_; }
  bool is_limited() const { return load_.rows > limits_.max_batch_size; }
  const CostModel& steps() const { return steps_; }
  const CostModel& passes() const { return passes_; }

 private:
  double worth_of_time() const;  // tokens that a unit of it must bring
  double worth() const;          // with what promises of late were worth
  std::size_t known_tokens() const { return load_.rows + load_.prefill_tokens; }
  std::size_t room() const;
  void expect(std::size_t unforeseen);
  double reach() const;  // most tokens that there could be to buy
  bool is_bought(double gain);

  CostModel steps_;
  CostModel passes_;
  std::size_t longest_draft_;
  Limits limits_;
  double least_;
  std::array<SourceFloor, kDraftersEnd> floors_;
  double length_ = 1.0;   // tokens that a row got, of late
  double drafted_ = 0.0;  // tokens that were verified for a row, of late
  double promised_ = 0.0;  // tokens that were to be accepted, of late
  double kept_ = 0.0;      // and those that were
  std::array<bool, kDraftersEnd> seen_{};  // whose tokens the last step verified
  Load load_;
  // Tokens of prompts that steps of late read and nobody had foreseen; and what the step to come
  // takes by its tokens, if it is one of them.
  std::array<double, 32> unforeseen_{};
  std::size_t steps_begun_ = 0;
  Curve ahead_;
  double price_ = 0.0;
  bool buys_ = true;
  double missing_ = 0.0;  // tokens that drafts must bring beyond their cost, until any is verified
  double verifying_ = 0.0;  // share of row-steps of late that verified drafts
  std::size_t idle_ = 0;  // steps without drafts
  std::size_t most_idle_;  // of them, until some tokens are drafted
  std::size_t drafting_ = 0;  // measured steps since one without drafts
  std::size_t most_drafting_;  // of them, until one is made
  bool probing_ = false;  // some tokens are drafted to see what they cost
  bool plain_ = false;    // none are, to see what a step costs without
};

}  // namespace specgate::policy
