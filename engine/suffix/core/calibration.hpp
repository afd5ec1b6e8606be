// How far a match is to be trusted: learnt from what came, one model a tenant.
//
// Two parts, both fed with outcomes only, so that same calls give same drafts:
//   - Reliability: how often the token after a match of that kind and length was the next one.
//     Its odds are the weight of a vote.
//   - SurvivalModel: a logistic regression that turns a vote into the probability that its token
//     is the next one, given that all before it were. Dense features, and one weight for each
//     value of some discrete ones; step sizes by AdaGrad (Duchi, Hazan, Singer, JMLR 2011).
// Both start from a prior that was fitted offline (adr/0012) and holds nothing about single tokens.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <span>

#include "text.hpp"

namespace specgate::suffix {

inline constexpr int kLongestMatch = 64;  // tokens; longer matches count as that long

// Where a match was found. Aligned: near the place where a long match ended just now, as in a copy
// that was edited.
enum class Origin : std::uint8_t { kOlder, kOwn, kOwnAligned, kOlderAligned };
inline constexpr int kOrigins = 4;

inline bool is_own(Origin origin) { return origin == Origin::kOwn || origin == Origin::kOwnAligned; }
inline bool is_aligned(Origin origin) { return origin >= Origin::kOwnAligned; }

// A match's origin, and whether it was the latest place of its context.
struct Kind {
  Origin origin;
  bool latest;
};

class Reliability {
 public:
  Reliability();

  // What a vote counts: the cube of the odds that it is right.
  float weight(Kind kind, int match_length) const {
    return entries_[row(kind)][static_cast<std::size_t>(match_length)].weight;
  }
  void learn(Kind kind, int match_length, bool right);

 private:
  struct Entry {
    float right;
    float seen;
    float weight;
  };
  static void refresh(Entry& entry);

  static std::size_t row(Kind kind) {
    return static_cast<std::size_t>(kind.origin) + (kind.latest ? kOrigins : 0);
  }

  std::array<std::array<Entry, kLongestMatch + 1>, 2 * kOrigins> entries_;
};

// What is known about one token that was voted for.
struct Vote {
  float share;            // of the weight, 0 to 1
  int voters;             // matches that vote for it
  int matches;            // matches that were live
  int tokens;             // different ones that they vote for
  int match_length;       // of its longest voter
  int rival_length;       // of the longest that votes for another, 0 if none does
  int depth;              // tokens drafted before it
  float weight;           // of its most reliable voter
  float log_survival;     // of the draft before it
  bool own;               // a voter is in the request's own text
  bool aligned;           // a voter continues an edited copy
  Token token;
  Token previous;
};

// What became of a draft.
enum class Outcome : std::uint8_t { kNone, kWrong, kPartlyRight, kRight };
inline constexpr int kOutcomes = 4;

// How the request's latest drafts fared, and how much of that is chance.
struct Fortune {
  float temperature = 0.0f;  // at which its text is sampled; 0: greedily
  float fast = 0.5f;         // moving mean of accepted (1) and rejected (0) draft tokens
  float slow = 0.5f;
  Outcome last = Outcome::kNone;

  void learn(int accepted_tokens, int drafted_tokens);
};

inline constexpr int kDense = 20;
inline constexpr int kDiscrete = 7;

struct Features {
  std::array<float, kDense> dense;
  std::array<std::uint16_t, kDiscrete> discrete;  // indices into the table of weights
};

class SurvivalModel {
 public:
  // Of a discrete feature; both are in the same cache line.
  struct Weight {
    float value = 0.0f;
    float square = 1.0f;  // sum of squared gradients
  };

  SurvivalModel();

  static Features features(const Vote& vote, const Fortune& fortune);

  // Bring into the cache what `score` and `learn` look at: after a model step that is far away.
  void prefetch(const Features& features) const {
    for (const std::uint16_t index : features.discrete) __builtin_prefetch(&weights_[index]);
  }
  // Log odds that its token is the next one.
  float score(const Features& features) const;
  // `score` is what was said of these features; what was learnt since makes no difference.
  void learn(const Features& features, float score, bool right);

  // What the prior is made of; the weights of hashed tokens belong to one tokenizer and stay out.
  std::span<const float> dense() const { return dense_; }
  std::span<const float> dense_squares() const { return dense_squares_; }
  std::span<const Weight> structured() const { return std::span(weights_).first(kStructured); }

 private:
  static constexpr int kStructured = 208 + 200;
  static constexpr int kHashed = 1024 + 512 + 2048 + 1024 + 1024;
  static constexpr int kWeights = kStructured + kHashed;

  std::array<float, kDense> dense_;
  std::array<float, kDense> dense_squares_;  // sums of squared gradients
  std::array<float, kDense> dense_steps_;    // as they follow from the squares, now and then
  int until_steps_ = 0;                      // outcomes until they are worked out again
  std::array<Weight, kWeights> weights_;
};

// The survival from which a draft token pays.
class Price {
 public:
  // The same for every token of a draft.
  static Price fixed(float survival) { return {survival, false}; }
  // Rises with the root of a token's place.
  static Price rising(float first) { return {first, true}; }

  // `place` counts from 0, and what another drafter proposes counts too.
  float at(int place) const {
    if (!rises_) return first_;
    return std::min(first_ * std::sqrt(static_cast<float>(place + 1)), kHighest);
  }

 private:
  static constexpr float kHighest = 0.8f;  // what is almost sure is always drafted

  Price(float first, bool rises) : first_(first), rises_(rises) {}

  float first_;
  bool rises_;
};

// Tokens a step, the one that the target adds included: what a step of this tenant is worth.
class AcceptanceLength {
 public:
  void learn(int accepted) { mean_ += kStep * (static_cast<float>(accepted + 1) - mean_); }

  // To verify a token costs a part of a step, so it has to bring that part of what the step brings
  // without it: the more, the longer the step. How long it becomes is guessed from two sides: the
  // tenant's mean (its power 3/4), and how far the draft has come already (the root of the place).
  // A draft that comes far is a long step wherever it happens. Powers and factor: adr/0012.
  Price price() const {
    const float root = std::sqrt(mean_);
    return Price::rising(kTokenCost * root * std::sqrt(root));
  }

 private:
  static constexpr float kStep = 0.002f;
  static constexpr float kTokenCost = 0.0715f;
  float mean_ = 2.0f;
};

struct Model {
  Reliability reliability;
  SurvivalModel survival;
  AcceptanceLength acceptance_length;
};

}  // namespace specgate::suffix
