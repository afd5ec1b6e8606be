// A draft: what the matches vote for, token by token, with the probability that it survives.
#pragma once

#include <array>
#include <span>

#include "calibration.hpp"
#include "matcher.hpp"

namespace specgate::suffix {

inline constexpr int kLongestDraft = 256;  // tokens; more than that is a caller's mistake
inline constexpr int kScored = 64;         // tokens of a draft that the calibration learns from

// What a caller gets; `length` elements of each are set.
struct Draft {
  std::span<Token> tokens;
  std::span<float> survival;  // probability that this token and all before it are accepted
  std::span<float> share;     // product of vote shares: the same before calibration
  int length = 0;
  int predicted = 0;          // leading tokens that a match in the prediction voted for
};

// A token that was voted for, as the calibration saw it; kGap if there was none.
struct Guess {
  Token token = kGap;
  float score = 0.0f;  // log odds
  Features features;
};

// What stood to choice at one place of a draft.
struct Choice {
  Guess taken;
  Guess rival;
};

// A draft that waits for its outcome. One choice more than was drafted is kept: the one that was
// not sure enough. Its outcome is as good to learn from, and keeps a low guess from staying low.
struct Pending {
  int drafted = 0;  // all, also those beyond kScored
  int scored = 0;   // choices that are set: at most drafted + 1
  bool asked = false;
  std::array<Choice, kScored> choices;  // last, since most of them are seldom touched

  void clear() {
    drafted = scored = 0;
    asked = false;
  }
};

// Where a draft begins: behind what was generated, or behind what another drafter proposes.
struct Onset {
  Token newest;
  std::span<const Token> proposed = {};
  float survival = 1.0f;  // of what is proposed
};

// Fill `draft` (spans of equal size: the most tokens wanted) and `pending`.
// A token is drafted while it survives at its `price`.
void vote(const Matcher& matcher, const Sources& sources, const Onset& onset, const Model& model,
          const Fortune& fortune, Price price, Draft& draft, Pending& pending);

}  // namespace specgate::suffix
