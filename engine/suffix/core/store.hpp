// A text and the tables that find contexts in it: what a request or a tenant remembers.
//
// Appending inserts three contexts a token (of 1, 2 and 4 tokens; adr/0011 has the figures) and
// never searches. Room is reserved before, so that an append cannot fail halfway.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "block_pool.hpp"
#include "context_table.hpp"
#include "text.hpp"

namespace specgate::suffix {

inline constexpr int kOrders = 3;
inline constexpr std::array<int, kOrders> kOrderLength = {4, 2, 1};  // tokens of context
inline constexpr int kLongestOrder = 4;

// The latest tokens, newest first; kGap where there are none.
using Tail = std::array<Token, kLongestOrder>;

// Multilinear hashing with secret factors (Carter and Wegman, 1979): without them nobody can make
// texts that collide.
class ContextHash {
 public:
  explicit ContextHash(std::uint64_t salt);

  // Of the newest `kOrderLength[order]` tokens.
  std::uint32_t operator()(const Tail& tail, int order) const {
    std::uint64_t sum = factors_[kLongestOrder];
    for (int i = 0; i < kOrderLength[order]; ++i) {
      sum += factors_[i] * (static_cast<std::uint64_t>(tail[i]) + 1);
    }
    return static_cast<std::uint32_t>(sum >> 32);
  }

 private:
  std::array<std::uint64_t, kLongestOrder + 1> factors_;
};

class Store {
 public:
  Store(BlockPool& pool, const ContextHash& hash);

  const Text& text() const { return text_; }
  std::size_t blocks() const;

  // Blocks that `tokens` more would need, their part of the tables included.
  std::size_t blocks_for(std::size_t tokens) const;

  // The pool must have `blocks_for(tokens.size())` blocks.
  void append(std::span<const Token> tokens);

  // What follows continues nothing that came before.
  void append_gap();

  // Make the tables at once as large as `tokens` more will need.
  void presize(std::size_t tokens);

  // Forget the oldest tokens; false when there is nothing to forget.
  bool forget();

  // Bring into the cache what the next token is written to.
  void prefetch_append() const;

  // Bring the slots of the contexts at hand into the cache.
  void prefetch(const Tail& tail) const;

  // Then the text at the positions in them.
  void prefetch_found(const Tail& tail) const;

  // Latest positions after the newest `kOrderLength[order]` tokens of the tail; to be verified.
  const Slot* find(const Tail& tail, int order) const;

 private:
  static std::uint32_t slots_for(int order, std::size_t tokens);
  void append_batch(std::span<const Token> tokens);
  void grow(std::size_t tokens);

  const ContextHash* hash_;
  Text text_;
  std::array<ContextTable, kOrders> tables_;
  Tail tail_;
  int known_ = 0;  // tokens of the tail since the last gap, at most kLongestOrder
};

}  // namespace specgate::suffix
