#include "store.hpp"

#include <algorithm>
#include <new>

namespace specgate::suffix {

namespace {

// Tokens per slot, and the most slots that a table may have. Most long contexts occur once, so two
// can share the four ways of a slot. One-token contexts are bounded by the vocabulary. adr/0011 has
// the figures.
constexpr std::array<std::uint32_t, kOrders> kTokensPerSlot = {2, 2, 4};
constexpr std::array<std::uint32_t, kOrders> kMostSlots = {1u << 31, 1u << 31, 1u << 17};

constexpr std::size_t kBatch = 16;  // tokens whose slots are prefetched before the first insertion

std::uint64_t split_mix(std::uint64_t& state) {  // S. Vigna's splitmix64
  std::uint64_t z = (state += 0x9E3779B97F4A7C15u);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

void shift_in(Tail& tail, Token token) {
  for (int i = kLongestOrder - 1; i > 0; --i) tail[i] = tail[i - 1];
  tail[0] = token;
}

}  // namespace

ContextHash::ContextHash(std::uint64_t salt) {
  for (std::uint64_t& factor : factors_) factor = split_mix(salt) | 1;
}

Store::Store(BlockPool& pool, const ContextHash& hash)
    : hash_(&hash),
      text_(pool),
      tables_{ContextTable(pool), ContextTable(pool), ContextTable(pool)} {
  tail_.fill(kGap);
}

std::size_t Store::blocks() const {
  std::size_t sum = text_.blocks();
  for (const ContextTable& table : tables_) sum += table.blocks();
  return sum;
}

std::uint32_t Store::slots_for(int order, std::size_t tokens) {
  const std::size_t slots = tokens / kTokensPerSlot[order];
  return static_cast<std::uint32_t>(
      std::clamp<std::size_t>(slots, ContextTable::kSlotsPerBlock, kMostSlots[order]));
}

std::size_t Store::blocks_for(std::size_t tokens) const {
  std::size_t sum = text_.blocks_for(tokens);
  for (int order = 0; order < kOrders; ++order) {
    sum += tables_[order].blocks_for(slots_for(order, text_.size() + tokens));
  }
  return sum;
}

bool Store::reserve(std::size_t tokens) {
  try {
    text_.reserve(tokens);
    for (int order = 0; order < kOrders; ++order) {
      tables_[order].reserve(slots_for(order, text_.size() + tokens));
    }
  } catch (const std::bad_alloc&) {
    return false;
  }
  return true;
}

void Store::grow(std::size_t tokens) {
  for (int order = 0; order < kOrders; ++order) {
    tables_[order].grow(slots_for(order, text_.size() + tokens));
  }
}

void Store::presize(std::size_t tokens) { grow(tokens); }

void Store::append(std::span<const Token> tokens) {
  while (!tokens.empty()) {
    const auto batch = tokens.first(std::min(kBatch, tokens.size()));
    grow(batch.size());
    append_batch(batch);
    tokens = tokens.subspan(batch.size());
  }
}

void Store::append_batch(std::span<const Token> tokens) {
  Slot* slots[kBatch][kOrders];
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    for (int order = 0; order < kOrders; ++order) {
      Slot* slot = nullptr;
      if (tokens[i] != kGap && known_ >= kOrderLength[order]) {
        slot = &tables_[order].at((*hash_)(tail_, order));
        __builtin_prefetch(slot, 1);
      }
      slots[i][order] = slot;
    }
    if (tokens[i] == kGap) {
      tail_.fill(kGap);
      known_ = 0;
      continue;
    }
    shift_in(tail_, tokens[i]);
    known_ = std::min(known_ + 1, kLongestOrder);
  }
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const Position here = text_.end();
    for (Slot* slot : slots[i]) {
      if (slot != nullptr) slot->push(here);
    }
    text_.push(tokens[i]);
  }
}

bool Store::forget() {
  if (!text_.forget_block()) return false;
  // Two blocks of slack keep the table size stable while evictions and appends alternate.
  const std::size_t tokens = text_.size() + 2 * kTokensPerBlock;
  for (int order = 0; order < kOrders; ++order) {
    tables_[order].shrink(slots_for(order, tokens), text_.begin());
  }
  return true;
}

void Store::prefetch_append() const {
  prefetch(tail_);
  if (text_.size() > 0) __builtin_prefetch(text_.address(text_.end() - 1), 1);
}

void Store::prefetch(const Tail& tail) const {
  for (int order = 0; order < kOrders; ++order) {
    if (const Slot* slot = find(tail, order)) __builtin_prefetch(slot);
  }
}

void Store::prefetch_found(const Tail& tail) const {
  for (int order = 0; order < kOrders; ++order) {
    const Slot* slot = find(tail, order);
    if (slot == nullptr) continue;
    for (const Position position : slot->recent) {
      if (text_.contains(position - 1)) __builtin_prefetch(text_.address(position - 1));
    }
  }
}

const Slot* Store::find(const Tail& tail, int order) const {
  if (tables_[order].size() == 0 || tail[kOrderLength[order] - 1] == kGap) return nullptr;
  return &tables_[order].at((*hash_)(tail, order));
}

}  // namespace specgate::suffix
