// The latest tokens of a request since the last gap, in contiguous memory, for comparison with
// matches.
#pragma once

#include <algorithm>
#include <array>
#include <span>

#include "calibration.hpp"
#include "store.hpp"

namespace specgate::suffix {

class Recent {
 public:
  void push(Token token) {
    if (token == kGap) {
      size_ = 0;
      return;
    }
    if (size_ == kRoom) {
      std::copy(tokens_.end() - kLongestMatch, tokens_.end(), tokens_.begin());
      size_ = kLongestMatch;
    }
    tokens_[size_++] = token;
  }

  void push(std::span<const Token> tokens) {
    if (tokens.size() > kLongestMatch) tokens = tokens.last(kLongestMatch);
    for (const Token token : tokens) push(token);
  }

  bool empty() const { return size_ == 0; }
  Token newest() const { return empty() ? kGap : tokens_[size_ - 1]; }

  Tail tail() const {
    Tail tail;
    for (std::size_t i = 0; i < tail.size(); ++i) {
      tail[i] = i < size_ ? tokens_[size_ - 1 - i] : kGap;
    }
    return tail;
  }

  // Returns how many tokens before `position` equal the latest ones, at most kLongestMatch.
  int match_length(const Text& text, Position position) const {
    const std::size_t most = std::min<std::size_t>(
        {kLongestMatch, size_, static_cast<std::size_t>(position - text.begin())});
    std::size_t length = 0;
    bool agrees = true;
    while (agrees && length < most) {
      const auto piece = text.before(position - static_cast<Position>(length));
      const Token* theirs = piece.data() + piece.size();
      const std::size_t end = std::min(most, length + piece.size());
      while (length < end && (agrees = *--theirs == tokens_[size_ - 1 - length])) ++length;
    }
    return static_cast<int>(length);
  }

 private:
  static constexpr std::size_t kRoom = 4 * kLongestMatch;
  std::array<Token, kRoom> tokens_;
  std::size_t size_ = 0;
};

}  // namespace specgate::suffix
