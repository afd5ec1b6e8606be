// What a drafter's guess says of another one's draft for the same row (docs/adr/0025).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "logistic.hpp"

namespace specgate::policy {

// A draft: its tokens, and for each the probability that it and all before it are accepted.
struct Claim {
  std::span<const std::int32_t> tokens;
  std::span<const double> survival;  // never rising; as many, or fewer
};

// Two drafters that look at different things, as an index of earlier text and a head that reads the
// target's state, are both more often right where they name the same token, and each less often
// where they do not. By how much is learnt for each position: three logistic models of the logits
// of what both claim, for a token that both name, and for either one where they differ.
class SecondOpinion {
 public:
  explicit SecondOpinion(std::size_t positions);

  // A position at which both named a token, having agreed on all before it.
  struct Meeting {
    std::int32_t draft;
    std::int32_t guess;
    Logistic::Features features;
  };

  // What is to be believed of a draft and of a guess once both are known: as many chances as were
  // claimed. Behind the place where they part, or where one ends, each goes on as it claimed.
  struct Verdict {
    std::vector<double> draft;
    std::vector<double> guess;
    std::vector<Meeting> meetings;
  };
  Verdict weigh(const Claim& draft, const Claim& guess) const;

  // The tokens that came where they had met.
  void learn(std::span<const Meeting> meetings, std::span<const std::int32_t> sampled);

  // What a guess is likely to bring beside a draft, by how sure the latter's first token is; in
  // tokens above their cost, as in `worth`. Until something is known it is expected to bring much.
  double gain(double first) const;

  // It brought so much.
  void note(double first, double gain);

 private:
  struct Position {
    Logistic both;   // agreed
    Logistic draft;  // differed
    Logistic guess;  // differed
  };
  struct Mean {
    double sum = 1.0;
    double count = 1.0;
  };
  static constexpr std::size_t kBands = 9;
  static std::size_t band(double first);

  std::vector<Position> positions_;
  std::array<Mean, kBands> gains_;
};

}  // namespace specgate::policy
