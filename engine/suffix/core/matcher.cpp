#include "matcher.hpp"

#include <algorithm>

namespace specgate::suffix {

namespace {

// Measured choices, adr/0012.
constexpr int kQuota = 8;             // matches per store
constexpr int kAlignedQuota = 2;      // matches near the anchor
constexpr int kLongMatch = 8;         // tokens; the end of a match this long becomes the anchor
constexpr int kAnchorLife = 32;       // tokens for which an anchor is used
constexpr Position kBefore = 4;       // tokens before the anchor that are searched
constexpr Position kBehind = 64;      // tokens after it
constexpr int kPredictedLength = 16;  // a prediction's start counts as a match of this length

}  // namespace

bool Matcher::has(const Store* store, Position position) const {
  return std::any_of(begin(), end(), [=](const Match& match) {
    return match.next == position && match.store == store;
  });
}

void Matcher::add(const Recent& recent, Store* store, Position position, Kind kind, int least) {
  if (size_ == kMost || !store->text().contains(position) || has(store, position)) return;
  const int length = recent.match_length(store->text(), position);
  if (length < least) return;  // another context in the same slot, or evicted text
  matches_[static_cast<std::size_t>(size_++)] = {store, position,
                                                 static_cast<std::uint8_t>(length), kind};
}

Matcher::Extent Matcher::extent_of(const Sources& sources) {
  Extent extent{sources.own->text().begin(), sources.own->text().end()};
  if (sources.tenant != nullptr) {
    extent.tenant_begin = sources.tenant->text().begin();
    extent.tenant_end = sources.tenant->text().end();
  }
  return extent;
}

void Matcher::prefetch_votes() const {
  for (const Match& match : *this) {
    if (match.has_next()) __builtin_prefetch(match.store->text().address(match.next));
  }
}

void Matcher::prefetch_slots(const Recent& recent, const Sources& sources) {
  const Tail tail = recent.tail();
  for (const Store* store : {sources.own, sources.prediction, sources.tenant}) {
    if (store != nullptr) store->prefetch(tail);
  }
}

void Matcher::prefetch_texts(const Recent& recent, const Sources& sources) {
  const Tail tail = recent.tail();
  for (const Store* store : {sources.own, sources.prediction, sources.tenant}) {
    if (store != nullptr) store->prefetch_found(tail);
  }
}

void Matcher::search(const Recent& recent, const Sources& sources) {
  searched_extent_ = extent_of(sources);
  const bool expecting = size_ == 1 && matches_[0].store == sources.prediction &&
                         matches_[0].kind.region == Region::kOwnAligned &&
                         matches_[0].next == sources.prediction->text().begin();
  if (expecting) return;
  size_ = 0;
  add_all(recent, sources);
}

void Matcher::add_all(const Recent& recent, const Sources& sources) {
  if (recent.empty()) return;
  if (anchor_store_ != nullptr && anchor_age_ < kAnchorLife) add_aligned(recent, sources);
  add_found(recent, sources.own, Region::kOwn, kQuota);
  if (sources.prediction != nullptr) add_found(recent, sources.prediction, Region::kOwn, kQuota);
  if (sources.tenant != nullptr) add_found(recent, sources.tenant, Region::kOlder, kQuota);
}

void Matcher::add_aligned(const Recent& recent, const Sources& sources) {
  const Text& text = anchor_store_->text();
  const Region region =
      anchor_store_ == sources.tenant ? Region::kOlderAligned : Region::kOwnAligned;
  const Token newest = recent.newest();
  // If the text was evicted up to here, the range is empty.
  const Position from = anchor_ - std::min(kBefore, anchor_ - text.begin() - 1);
  if (!text.contains(from)) return;
  const Position to = from + std::min(kBefore + kBehind, text.end() - from);
  int found = 0;
  for (Position position = from; position != to && found < kAlignedQuota; ++position) {
    if (text[position - 1] == newest) {
      add(recent, anchor_store_, position, {region, false}, 1);
      ++found;
    }
  }
}

void Matcher::add_found(const Recent& recent, Store* store, Region region, int quota) {
  const Tail tail = recent.tail();
  std::array<const Slot*, kOrders> slots;
  for (int order = 0; order < kOrders; ++order) {
    slots[static_cast<std::size_t>(order)] = store->find(tail, order);
  }
  const int limit = std::min(size_ + quota, kMost);
  for (int order = 0; order < kOrders; ++order) {
    const Slot* slot = slots[static_cast<std::size_t>(order)];
    if (slot == nullptr) continue;
    for (const Position position : slot->recent) {
      if (size_ == limit) return;
      const bool latest = position == slot->recent.front();
      add(recent, store, position, {region, latest}, kOrderLength[order]);
    }
  }
}

template <class IsRight>
void Matcher::walk(IsRight is_right) {
  const Match* longest = nullptr;
  for (const Match& match : *this) {
    if (longest == nullptr || match.length > longest->length) longest = &match;
  }
  ++anchor_age_;
  if (longest != nullptr && longest->length >= kLongMatch) {
    anchor_store_ = longest->store;
    anchor_ = longest->next + 1;
    anchor_age_ = 0;
  }
  int kept = 0;
  for (int i = 0; i < size_; ++i) {
    Match match = matches_[static_cast<std::size_t>(i)];
    if (!is_right(match)) continue;
    ++match.next;
    match.length = static_cast<std::uint8_t>(std::min(match.length + 1, kLongestMatch));
    matches_[static_cast<std::size_t>(kept++)] = match;
  }
  size_ = kept;
}

void Matcher::advance(Token token, Reliability& reliability) {
  walk([&](const Match& match) {
    const bool right = match.has_next() && match.vote() == token;
    reliability.learn(match.kind, match.length, right);
    return right;
  });
}

void Matcher::assume(std::span<const Token> tokens, Recent recent, const Sources& sources) {
  // Not needed if it was done since the latest token and no text has changed since.
  if (searched_extent_ != extent_of(sources)) search(recent, sources);
  const Lookahead lookahead{sources.own, tokens, nullptr};
  for (const Token token : tokens) {
    walk([&](const Match& match) { return lookahead.vote_of(match) == token; });
    recent.push(token);
  }
  prefetch_slots(recent, sources);
  prefetch_texts(recent, sources);
  add_all(recent, sources);
}

void Matcher::expect(Store* prediction, Position begin) {
  matches_[0] = {prediction, begin, kPredictedLength, {Region::kOwnAligned, false}};
  size_ = 1;
  searched_extent_ = {};
  anchor_store_ = prediction;
  anchor_ = begin;
  anchor_age_ = 0;
}

void Matcher::drop(const Store* store) {
  size_ = static_cast<int>(
      std::remove_if(matches_.begin(), matches_.begin() + size_,
                     [=](const Match& match) { return match.store == store; }) -
      matches_.begin());
  if (anchor_store_ == store) anchor_store_ = nullptr;
  searched_extent_ = {};
}

}  // namespace specgate::suffix
