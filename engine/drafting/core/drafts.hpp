// The drafts of a step, whoever made them: their tokens in one piece of memory, kept from step to
// step, since after a model step every cache line is a miss.
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
enum Source : std::uint8_t { kNobody, kSuffix, kHead, kNative, kPrediction };

// Whose a draft is: `first_length` tokens of `first`, then all others of `second`; without a
// `second` all are of `first`.
struct Origin {
  Source first = kNobody;
  Source second = kNobody;
  std::size_t first_length = 0;

  // Of its first `length` tokens alone.
  Origin cut(std::size_t length) const {
    return second == kNobody || length > first_length ? *this : Origin{first};
  }
};

// A draft that a row could have, by its place in `Drafts`. No tokens: none.
struct Draft {
  std::size_t tokens_at = 0;
  std::size_t tokens = 0;
  std::size_t survival_at = 0;
  std::size_t survival = 0;  // as many as tokens, or fewer: what is not known survives nothing
  Origin origin;

  explicit operator bool() const { return tokens > 0; }
};

class Drafts {
 public:
  void clear() {
    tokens_.clear();
    survival_.clear();
  }

  // Keep a draft. `survival`: for each token the probability that it and all before it are
  // accepted; never rising.
  template <class Tokens, class Survival>
  Draft add(const Tokens& tokens, const Survival& survival, Origin origin) {
    const Draft draft{tokens_.size(), std::ranges::size(tokens), survival_.size(),
                      std::ranges::size(survival), origin};
    append(tokens, survival);
    return draft;
  }

  // The draft that was added last, followed by more of another source.
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

  // Believe something else of a draft than it was added with; as many chances.
  void believe(const Draft& draft, std::span<const double> survival) {
    std::ranges::copy(survival.first(draft.survival),
                      survival_.begin() + static_cast<std::ptrdiff_t>(draft.survival_at));
  }

  // What it brings at a price, in tokens above their cost.
  double gain(const Draft& draft, double price) const;

  // How many of its tokens are worth the price.
  std::size_t paying(const Draft& draft, double price) const;

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
