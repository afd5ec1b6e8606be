// Maps a context of n tokens to the four most recent positions where it occurred.
//
// The table is direct-mapped by a salted hash and stores no tags. Readers compare the text at each
// position, so a collision costs a comparison and never gives a wrong match; positions of evicted
// text are skipped in the same way. The table grows with its text, one slot at a time (linear
// hashing, W. Litwin, VLDB 1980). A new slot starts as a copy of the slot that it splits off.
// Positions that belong to the other half fail their comparison and are soon pushed out, so no call
// ever rehashes.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "block_pool.hpp"
#include "text.hpp"

namespace specgate::suffix {

struct Slot {
  static constexpr int kWays = 4;
  std::array<Position, kWays> recent;  // newest first; 0 is empty

  void push(Position position) {
    for (int way = kWays - 1; way > 0; --way) recent[way] = recent[way - 1];
    recent[0] = position;
  }
};
static_assert(sizeof(Slot) == 16);

class ContextTable {
 public:
  static constexpr std::uint32_t kSlotsPerBlock = kBlockBytes / sizeof(Slot);

  explicit ContextTable(BlockPool& pool) : pool_(&pool) {}
  ~ContextTable() {
    for (Slot* block : blocks_) pool_->give_back(block);
  }
  ContextTable(const ContextTable&) = delete;
  ContextTable& operator=(const ContextTable&) = delete;

  std::uint32_t size() const { return size_; }
  std::size_t blocks() const { return blocks_.size(); }

  std::size_t blocks_for(std::uint32_t slots) const {
    const std::size_t needed = (std::size_t{slots} + kSlotsPerBlock - 1) / kSlotsPerBlock;
    return needed > blocks_.size() ? needed - blocks_.size() : 0;
  }

  // Returns the slot of a hash. The table must not be empty.
  Slot& at(std::uint32_t hash) { return slot(index_of(hash)); }
  const Slot& at(std::uint32_t hash) const { return slot(index_of(hash)); }

  // Prepares for growth to `slots`; the pool must have reserved its blocks.
  void reserve(std::uint32_t slots) { reserve_more(blocks_, blocks_for(slots)); }

  // Its room must have been reserved.
  void grow(std::uint32_t slots) {
    if (size_ == 0) return begin(slots);
    while (size_ < slots) {
      if (size_ == blocks_.size() * kSlotsPerBlock) take_block();
      slot(size_) = slot(size_ - std::bit_floor(size_));
      ++size_;
      mask_ = std::bit_ceil(size_) - 1;
    }
  }

  // Merges the last slots back into those that they were split off, keeping the newest positions.
  void shrink(std::uint32_t slots, Position front) {
    while (size_ > slots && size_ > kSlotsPerBlock) {
      const std::uint32_t last = size_ - 1;
      Slot& into = slot(last - std::bit_floor(last));
      into = latest(into, slot(last), front);
      size_ = last;
      mask_ = std::bit_ceil(size_) - 1;
      if (size_ % kSlotsPerBlock == 0) {
        pool_->give_back(blocks_.back());
        blocks_.pop_back();
      }
    }
  }

 private:
  std::uint32_t index_of(std::uint32_t hash) const {
    const std::uint32_t index = hash & mask_;
    return index < size_ ? index : index & (mask_ >> 1);
  }

  Slot& slot(std::uint32_t index) {
    return blocks_[index / kSlotsPerBlock][index % kSlotsPerBlock];
  }
  const Slot& slot(std::uint32_t index) const {
    return blocks_[index / kSlotsPerBlock][index % kSlotsPerBlock];
  }

  void take_block() { blocks_.push_back(static_cast<Slot*>(pool_->take())); }

  // The table is empty, so there is nothing to copy. Blocks are zeroed.
  void begin(std::uint32_t slots) {
    while (blocks_.size() * kSlotsPerBlock < slots) take_block();
    size_ = slots;
    mask_ = std::bit_ceil(size_) - 1;
  }

  static Slot latest(const Slot& a, const Slot& b, Position front) {
    // The distance from the front orders positions even after they wrap around. Evicted and empty
    // positions are more than half the range away and rank lowest.
    const auto rank = [front](Position position) {
      const std::uint32_t distance = position - front;
      return distance < (1u << 31) ? distance + 1 : 0;
    };
    Slot merged{};
    int from_a = 0;
    int from_b = 0;
    for (Position& way : merged.recent) {
      const std::uint32_t rank_a = rank(a.recent[from_a]);
      const std::uint32_t rank_b = rank(b.recent[from_b]);
      way = rank_a >= rank_b ? a.recent[from_a] : b.recent[from_b];
      if (rank_a >= rank_b) ++from_a;
      if (rank_b >= rank_a) ++from_b;
      if (from_a == Slot::kWays || from_b == Slot::kWays) break;
    }
    return merged;
  }

  BlockPool* pool_;
  std::vector<Slot*> blocks_;
  std::uint32_t size_ = 0;
  std::uint32_t mask_ = 0;
};

}  // namespace specgate::suffix
