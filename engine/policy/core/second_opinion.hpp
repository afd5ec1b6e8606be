// Combines two drafts for the same sequence: how likely each is, given the other (docs/adr/0025).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "calibration.hpp"

namespace specgate::policy {

// A draft as stated by its drafter.
struct StatedDraft {
  std::span<const std::int32_t> tokens;
  std::span<const double> survival;  // must not rise; may be shorter than `tokens`
};

// A suffix index and a draft head use different information. Where they propose the same token both
// are right more often, and where they differ each is right less often. By how much is learnt for
// each position with three logistic models of the two stated logits: one for a token that both
// propose, and one for each of two different tokens.
class SecondOpinion {
 public:
  explicit SecondOpinion(std::size_t positions);

  // A position at which both proposed a token after agreeing on all tokens before it.
  struct Comparison {
    std::int32_t draft;
    std::int32_t proposal;
    Logistic::Features features;
  };

  // Returns corrected survival for both, as long as stated. After the first difference, or the end
  // of one of them, each keeps its own conditional probabilities.
  struct Weighed {
    std::vector<double> draft;
    std::vector<double> proposal;
    std::vector<Comparison> comparisons;
  };
  Weighed weigh(const StatedDraft& draft, const StatedDraft& proposal) const;

  // Takes in the tokens that came at those positions.
  void learn(std::span<const Comparison> comparisons, std::span<const std::int32_t> sampled);

 private:
  struct Position {
    Logistic both;      // agreed
    Logistic draft;     // differed
    Logistic proposal;  // differed
  };

  std::vector<Position> positions_;
};

}  // namespace specgate::policy
