// A text: tokens in blocks, appended at the end and evicted from the front, one block at a time.
//
// A position is a running number (modulo 2^32) and is not reused within four billion tokens. So the
// distance from the front tells whether a position is still in the text. kGap separates two answers
// and stands for tokens outside of the vocabulary; it equals no token.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "block_pool.hpp"

namespace specgate::suffix {

using Token = std::int32_t;
using Position = std::uint32_t;

inline constexpr Token kGap = -1;
inline constexpr std::uint32_t kTokensPerBlock = kBlockBytes / sizeof(Token);

// Makes room for `more` elements, so that adding them cannot fail. Growth is geometric.
template <class T>
void reserve_more(std::vector<T>& elements, std::size_t more) {
  const std::size_t needed = elements.size() + more;
  if (needed > elements.capacity()) elements.reserve(std::max(needed, 2 * elements.capacity()));
}

class Text {
 public:
  explicit Text(BlockPool& pool) : pool_(&pool) {}
  ~Text() {
    for (std::size_t i = first_; i < blocks_.size(); ++i) pool_->give_back(blocks_[i]);
  }
  Text(const Text&) = delete;
  Text& operator=(const Text&) = delete;

  std::uint32_t size() const { return size_; }
  Position begin() const { return front_; }
  Position end() const { return front_ + size_; }
  std::size_t blocks() const { return blocks_.size() - first_; }

  bool contains(Position position) const { return position - front_ < size_; }

  // The token at a position that the text contains.
  Token operator[](Position position) const {
    const std::uint32_t offset = position - front_;
    return blocks_[first_ + offset / kTokensPerBlock][offset % kTokensPerBlock];
  }

  // Returns the contiguous tokens that end before `position`, at least one. `position` must be
  // greater than `begin`.
  std::span<const Token> before(Position position) const {
    const std::uint32_t last = position - front_ - 1;
    return {blocks_[first_ + last / kTokensPerBlock], last % kTokensPerBlock + 1};
  }

  // Returns the address of a token, for a prefetch.
  const Token* address(Position position) const {
    const std::uint32_t offset = position - front_;
    return blocks_[first_ + offset / kTokensPerBlock] + offset % kTokensPerBlock;
  }

  std::size_t blocks_for(std::size_t more_tokens) const {
    const std::size_t needed = (size_ + more_tokens + kTokensPerBlock - 1) / kTokensPerBlock;
    return needed > blocks() ? needed - blocks() : 0;
  }

  // Prepares for `more_tokens` more tokens; the pool must have reserved their blocks.
  void reserve(std::size_t more_tokens) { reserve_more(blocks_, blocks_for(more_tokens)); }

  // Its room must have been reserved.
  void push(Token token) {
    if (size_ == blocks() * kTokensPerBlock) {
      blocks_.push_back(static_cast<Token*>(pool_->take()));
    }
    blocks_[first_ + size_ / kTokensPerBlock][size_ % kTokensPerBlock] = token;
    ++size_;
  }

  // Returns the contiguous tokens from `position` on, at least one. The text must contain it.
  std::span<const Token> from(Position position) const {
    const std::uint32_t offset = position - front_;
    const std::uint32_t within = offset % kTokensPerBlock;
    return {address(position), std::min(kTokensPerBlock - within, size_ - offset)};
  }

  // Evicts the oldest block. Returns false if only the block that is being written is left.
  bool forget_block() {
    if (blocks() < 2) return false;
    pool_->give_back(blocks_[first_++]);
    if (first_ > 64 && first_ > blocks_.size() / 2) {
      blocks_.erase(blocks_.begin(), blocks_.begin() + static_cast<std::ptrdiff_t>(first_));
      first_ = 0;
    }
    front_ += kTokensPerBlock;
    size_ -= kTokensPerBlock;
    return true;
  }

 private:
  BlockPool* pool_;
  std::vector<Token*> blocks_;
  std::size_t first_ = 0;  // blocks before it were given back
  Position front_ = 1;  // 0 is not a position: it marks an empty table entry
  std::uint32_t size_ = 0;
};

}  // namespace specgate::suffix
