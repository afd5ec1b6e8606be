// A text and the tables that find contexts in it. Requests, predictions and tenants have one each.
//
// Appending a token inserts three contexts (of 1, 2 and 4 tokens; adr/0011 has the figures) and
// never searches. No context spans a gap. The caller reserves memory first, so that an append cannot
// fail halfway.
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

// The latest tokens, newest first. kGap marks missing ones.
using Tail = std::array<Token, kLongestOrder>;

// Multilinear hashing (Carter and Wegman, 1979). Its factors are secret, so that nobody can craft
// texts whose contexts collide.
class ContextHash {
 public:
  explicit ContextHash(std::uint64_t salt);

  // Returns the hash of the newest `kOrderLength[order]` tokens.
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

  // Returns how many more blocks `tokens` more tokens need, including table growth.
  std::size_t blocks_for(std::size_t tokens) const;

  // Prepares for `tokens` more tokens; the pool must have reserved their blocks. Returns false if
  // the system has no memory.
  bool reserve(std::size_t tokens);

  // Appends tokens and gaps. Their room must have been reserved.
  void append(std::span<const Token> tokens);

  // Grows the tables at once to the size that `tokens` more tokens need.
  void presize(std::size_t tokens);

  // Evicts the oldest tokens. Returns false if there is nothing to evict.
  bool forget();

  // Prefetches where the next token is written.
  void prefetch_append() const;

  // Prefetches the slots of the tail's contexts.
  void prefetch(const Tail& tail) const;

  // Prefetches the text at the positions in those slots.
  void prefetch_found(const Tail& tail) const;

  // Returns the latest positions after the newest `kOrderLength[order]` tokens of the tail, or null.
  // They have to be compared with the text.
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
