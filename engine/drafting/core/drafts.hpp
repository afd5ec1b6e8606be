// The drafts of a step in contiguous memory that is reused: after a model step every cache line is
// a miss.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <ranges>
#include <span>
#include <vector>

namespace specgate::drafting {

using Token = std::int32_t;

// Source codes, as in origin.py.
enum Source : std::uint8_t { kNone, kSuffix, kHead, kNative, kPrediction };

// Who proposed a draft: its first `first_length` tokens are from `first`, the rest from `second`.
// Without a `second` all are from `first`.
struct Origin {
  Source first = kNone;
  Source second = kNone;
  std::size_t first_length = 0;

  // Returns the origin of the first `length` tokens.
  Origin cut(std::size_t length) const {
    return second == kNone || length > first_length ? *this : Origin{first};
  }
};

// A draft in `Drafts`. Empty: no draft.
struct Draft {
  std::size_t tokens_at = 0;
  std::size_t tokens = 0;
  std::size_t survival_at = 0;
  std::size_t survival = 0;  // at most `tokens`; tokens without a survival are never drafted
  Origin origin;

  explicit operator bool() const { return tokens > 0; }
};

class Drafts {
 public:
  void clear() {
    tokens_.clear();
    survival_.clear();
  }

  // Adds a draft. `survival`: for each token the probability that it and all before it are
  // accepted; must not rise.
  template <class Tokens, class Survival>
  Draft add(const Tokens& tokens, const Survival& survival, Origin origin) {
    const Draft draft{tokens_.size(), std::ranges::size(tokens), survival_.size(),
                      std::ranges::size(survival), origin};
    append(tokens, survival);
    return draft;
  }

  // Extends the draft that was added last with tokens of another source.
  template <class Tokens, class Survival>
  Draft grow(Draft last, const Tokens& tokens, const Survival& survival, Source source) {
    last.origin = {last.origin.first, source, last.tokens};
    append(tokens, survival);
    last.tokens += std::ranges::size(tokens);
    last.survival += std::ranges::size(survival);
    return last;
  }

  std::span<const Token> tokens(const Draft& draft) const {
    return std::span(tokens_).subspan(draft.tokens_at, draft.tokens);
  }
  std::span<const double> survival(const Draft& draft) const {
    return std::span(survival_).subspan(draft.survival_at, draft.survival);
  }

  // Replaces the survival of a draft; of the same length.
  void set_survival(const Draft& draft, std::span<const double> survival) {
    std::ranges::copy(survival.first(draft.survival),
                      survival_.begin() + static_cast<std::ptrdiff_t>(draft.survival_at));
  }

 private:
  template <class Tokens, class Survival>
  void append(const Tokens& tokens, const Survival& survival) {
    tokens_.insert(tokens_.end(), std::ranges::begin(tokens), std::ranges::end(tokens));
    survival_.insert(survival_.end(), std::ranges::begin(survival), std::ranges::end(survival));
  }

  std::vector<Token> tokens_;
  std::vector<double> survival_;
};

}  // namespace specgate::drafting
