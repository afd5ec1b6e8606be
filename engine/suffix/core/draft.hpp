// Builds a draft token by token from the votes of the matches, with its survival probabilities.
#pragma once

#include <array>
#include <span>

#include "calibration.hpp"
#include "matcher.hpp"

namespace specgate::suffix {

inline constexpr int kLongestDraft = 256;  // tokens
inline constexpr int kScored = 64;         // tokens of a draft that the calibration learns from

// What the index expects next, in the caller's memory. The first `length` elements of each span are set.
struct Continuation {
  std::span<Token> tokens;
  std::span<float> survival;  // probability that this token and all before it are accepted
  std::span<float> share;     // product of the vote shares, for benchmarks; may be empty
  int length = 0;
  int predicted = 0;          // leading tokens that a match in the prediction voted for
};

// A candidate token and its score. kGap: there was no candidate.
struct ScoredToken {
  Token token = kGap;
  float score = 0.0f;  // log odds
  Features features;
};

// The two best candidates for one position of a draft.
struct Choice {
  ScoredToken taken;
  ScoredToken rival;
};

// A draft whose outcome is not known yet. It keeps one choice more than it drafted: the one whose
// survival was too low. Learning from that outcome too keeps a wrong low estimate from persisting.
struct Pending {
  int drafted = 0;  // tokens, including those beyond kScored
  int scored = 0;   // choices that are set: at most drafted + 1
  bool asked = false;
  std::array<Choice, kScored> choices;  // last in the object, because most are rarely touched

  void clear() {
    drafted = scored = 0;
    asked = false;
  }
};

// Where a draft starts: after the generated text, or after tokens that another drafter proposed.
struct DraftStart {
  Token newest;
  std::span<const Token> proposed = {};
  float survival = 1.0f;  // probability that all proposed tokens are accepted
};

// Fills `draft` and `pending`. The spans of `draft` have equal sizes: the most tokens wanted. The
// draft ends before the first token whose survival is below `min_survival`.
void vote(const Matcher& matcher, const Sources& sources, const DraftStart& start,
          const Model& model, const RecentOutcomes& outcomes, float min_survival,
          Continuation& draft, Pending& pending);

}  // namespace specgate::suffix
