// Shared by the programs: random texts that are hard on an index, and a check for every build.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "index.hpp"

namespace sanitize {

using specgate::suffix::Token;

inline void require(bool holds, const char* claim) {
  if (holds) return;
  std::fprintf(stderr, "broken: %s\n", claim);
  std::abort();
}

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : engine_(seed) {}

  // From 0 to `values` - 1.
  std::size_t below(std::size_t values) { return engine_() % values; }
  bool one_in(std::size_t chances) { return below(chances) == 0; }
  // Mostly small, sometimes up to `most`; at least 1.
  std::size_t length(std::size_t most) { return 1 + below(1 + below(one_in(8) ? most : 40)); }

  std::vector<Token> text(std::size_t most) {
    std::vector<Token> tokens(length(most));
    switch (below(5)) {
      case 0:  // a single repeated token
        std::fill(tokens.begin(), tokens.end(), token(4));
        break;
      case 1: {  // a short period
        const std::vector<Token> piece = letters(1 + below(9), 5);
        for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = piece[i % piece.size()];
        break;
      }
      case 2:  // an edited copy of a text that all requests share
        for (std::size_t i = 0; i < tokens.size(); ++i) {
          tokens[i] = one_in(30) ? token(50) : static_cast<Token>(1000 + i % 700);
        }
        break;
      case 3:  // few different contexts
        tokens = letters(tokens.size(), 3);
        break;
      default:  // no repetition, up to the largest token
        tokens = letters(tokens.size(), std::size_t{1} << 31);
    }
    if (one_in(4)) {  // an image
      const std::size_t from = below(tokens.size());
      const std::size_t size = 1 + below(tokens.size() - from);
      std::fill_n(tokens.begin() + static_cast<std::ptrdiff_t>(from), size, unknown());
    }
    return tokens;
  }

 private:
  Token token(std::size_t values) { return static_cast<Token>(below(values)); }
  Token unknown() {
    constexpr Token kUnknown[] = {-1, -200, std::numeric_limits<Token>::min(),
                                  std::numeric_limits<Token>::max()};
    return kUnknown[below(std::size(kUnknown))];
  }
  std::vector<Token> letters(std::size_t size, std::size_t values) {
    std::vector<Token> tokens(size);
    for (Token& each : tokens) each = token(values);
    return tokens;
  }

  std::mt19937_64 engine_;
};

// A draft with memory for its arrays.
struct Room {
  std::vector<Token> tokens;
  std::vector<float> survival;
  std::vector<float> share;
  specgate::suffix::Continuation draft;

  explicit Room(std::size_t most)
      : tokens(most), survival(most), share(most), draft{tokens, survival, share} {}
  Room(const Room&) = delete;
  Room& operator=(const Room&) = delete;

  // `highest`: the survival of the tokens before the draft.
  void check(float highest, std::uint64_t vocabulary) const {
    require(draft.length >= 0 && draft.length <= static_cast<int>(tokens.size()),
            "a draft has at most as many tokens as were asked for");
    require(draft.predicted >= 0 && draft.predicted <= draft.length,
            "a prediction is followed for a part of a draft");
    float before = highest;
    for (std::size_t i = 0; i < static_cast<std::size_t>(draft.length); ++i) {
      require(static_cast<std::uint32_t>(tokens[i]) < vocabulary, "a draft holds tokens");
      require(survival[i] >= 0.0f && survival[i] <= before, "survival never rises");
      require(share[i] > 0.0f && share[i] <= 1.0f, "a share is a part");
      before = survival[i];
    }
  }
};

class Clock {
 public:
  explicit Clock(double seconds) : end_(now() + std::chrono::duration<double>(seconds)) {}
  bool is_over() const { return now() >= end_; }

 private:
  static std::chrono::time_point<std::chrono::steady_clock, std::chrono::duration<double>> now() {
    return std::chrono::steady_clock::now();
  }
  std::chrono::time_point<std::chrono::steady_clock, std::chrono::duration<double>> end_;
};

}  // namespace sanitize
