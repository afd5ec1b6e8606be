// Estimates how likely a match predicts the next token. Each tenant has its own model.
//
// The model has two parts. Both learn from outcomes only, so the same calls give the same drafts.
//   - Reliability: how often matches of a kind and length were followed by the right token. The
//     cube of these odds is the weight of a vote.
//   - SurvivalModel: a logistic regression for the probability that the voted token comes next,
//     given that all drafted tokens before it were accepted. It has dense features, and one weight
//     for each value of some discrete features. Step sizes follow AdaGrad (Duchi, Hazan and Singer,
//     JMLR 2011).
// Both start from a prior that contains nothing about specific tokens.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <span>

#include "text.hpp"

namespace specgate::suffix {

inline constexpr int kLongestMatch = 64;  // tokens; longer matches count as this long

// Where a match was found: in older answers of the tenant or in the request's own text. Aligned:
// close behind the end of a recent long match, as when a copy continues after an edit.
enum class Region : std::uint8_t { kOlder, kOwn, kOwnAligned, kOlderAligned };
inline constexpr int kRegions = 4;

inline bool is_own(Region region) {
  return region == Region::kOwn || region == Region::kOwnAligned;
}
inline bool is_aligned(Region region) { return region >= Region::kOwnAligned; }

// A match's region, and whether it is the most recent occurrence of its context.
struct Kind {
  Region region;
  bool latest;
};

inline constexpr int kDense = 20;
inline constexpr int kDiscrete = 7;
inline constexpr int kStructured = 208 + 200;  // weights of discrete features without tokens

// What a model starts from: the shares and weights, and how much data they count for.
struct Prior {
  float outcomes;  // of each reliability
  std::array<std::array<float, kLongestMatch + 1>, 2 * kRegions> reliability;
  std::array<float, kDense> dense;
  std::array<float, kDense> dense_squares;  // sums of squared gradients
  std::array<float, kStructured> weights;
  std::array<float, kStructured> squares;

  // Whether every value is in its range.
  bool is_sound() const;
};

class Reliability {
 public:
  explicit Reliability(const Prior& prior);

  // Returns the weight of a vote: the cube of the odds that it is right.
  float weight(Kind kind, int match_length) const {
    return entries_[row(kind)][static_cast<std::size_t>(match_length)].weight;
  }
  void learn(Kind kind, int match_length, bool right);
  // Whether `learn` could have led to these values; for those that were read from a file.
  bool is_sound() const;
  // Sets a prior's reliability.
  void copy_to(Prior& prior) const;

 private:
  struct Entry {
    float right;
    float seen;
    float weight;
  };
  static void refresh(Entry& entry);

  static std::size_t row(Kind kind) {
    return static_cast<std::size_t>(kind.region) + (kind.latest ? kRegions : 0);
  }

  std::array<std::array<Entry, kLongestMatch + 1>, 2 * kRegions> entries_;
};

// The evidence for one candidate token.
struct Vote {
  float share;            // its part of the total weight, 0 to 1
  int voters;             // matches that vote for it
  int matches;            // matches that still agree with the draft
  int tokens;             // distinct tokens that those vote for
  int match_length;       // of its longest voter
  int rival_length;       // of the longest match that votes for another token, or 0
  int depth;              // tokens drafted before it
  float weight;           // of its most reliable voter
  float log_survival;     // of the draft before it
  bool own;               // a voter is in the request's own text
  bool aligned;           // a voter continues an edited copy
  Token token;
  Token previous;
};

// The outcome of a draft.
enum class Outcome : std::uint8_t { kNone, kWrong, kPartlyRight, kRight };
inline constexpr int kOutcomes = 4;

// How a request's recent drafts fared, and its sampling temperature.
struct RecentOutcomes {
  float temperature = 0.0f;  // 0: greedy
  float fast = 0.5f;         // moving averages of accepted (1) and rejected (0) draft tokens
  float slow = 0.5f;
  Outcome last = Outcome::kNone;

  void learn(int accepted_tokens, int drafted_tokens);
};

struct Features {
  std::array<float, kDense> dense;
  std::array<std::uint16_t, kDiscrete> discrete;  // indices into the weight table
};

class SurvivalModel {
 public:
  // The weight of a discrete feature. Both numbers share a cache line.
  struct Weight {
    float value = 0.0f;
    float square = 1.0f;  // sum of squared gradients
  };

  explicit SurvivalModel(const Prior& prior);

  static Features features(const Vote& vote, const RecentOutcomes& outcomes);

  // Prefetches what `score` and `learn` read. After a model step it is no longer in any cache.
  void prefetch(const Features& features) const {
    for (const std::uint16_t index : features.discrete) __builtin_prefetch(&weights_[index]);
  }
  // Returns the log odds that the token comes next.
  float score(const Features& features) const;
  // `score`: the value returned for these features when the draft was made.
  void learn(const Features& features, float score, bool right);
  // As that of Reliability.
  bool is_sound() const;
  // Sets what a prior has of it. Hashed weights depend on the tokenizer and are not in it.
  void copy_to(Prior& prior) const;

 private:
  static constexpr int kHashed = 1024 + 512 + 2048 + 1024 + 1024;
  static constexpr int kWeights = kStructured + kHashed;

  std::array<float, kDense> dense_;
  std::array<float, kDense> dense_squares_;  // sums of squared gradients
  std::array<float, kDense> dense_steps_{};  // step sizes, from the squares as of some time ago
  int until_steps_ = 0;                      // outcomes until the step sizes are computed again
  std::array<Weight, kWeights> weights_;
};

struct Model {
  explicit Model(const Prior& prior) : reliability(prior), survival(prior) {}

  // Returns what it has learnt.
  Prior learnt() const;

  Reliability reliability;
  SurvivalModel survival;

  bool is_sound() const { return reliability.is_sound() && survival.is_sound(); }
};

}  // namespace specgate::suffix
