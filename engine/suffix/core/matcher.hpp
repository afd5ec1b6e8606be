// Finds places where the request's latest tokens occurred before.
//
// Candidates come from the tables of up to three stores (the request's own text, the client's
// prediction, the tenant's earlier answers), four per context length, and are compared with the
// text. Between drafts the matches move along with the generated tokens, so each token shows which
// matches were right and where a long match ended. After an edit a copy often continues near that
// end, with too little context to be found through the tables, so the text around it is searched
// too. A copy of a matcher can run ahead of the request over tokens that another drafter proposed.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "calibration.hpp"
#include "recent.hpp"
#include "store.hpp"

namespace specgate::suffix {

struct Match {
  Store* store;
  Position next;  // position of the token that it votes for
  std::uint8_t length;
  Kind kind;

  bool has_next() const { return store->text().contains(next); }
  Token vote() const { return store->text()[next]; }
};

// The stores that a request searches. The last two may be null.
struct Sources {
  Store* own;
  Store* prediction;
  Store* tenant;
};

// Tokens that would follow the request's own text. Matches in that text continue into them, so that
// a loop can be followed beyond its end.
struct Lookahead {
  const Store* own;
  std::span<const Token> proposed;  // by another drafter
  const Token* drafted;             // after those

  // Returns the token that a match votes for, or kGap at the end of its text.
  Token vote_of(const Match& match) const {
    if (match.has_next()) return match.vote();
    if (match.store != own) return kGap;
    const std::size_t at = match.next - own->text().end();
    return at < proposed.size() ? proposed[at] : drafted[at - proposed.size()];
  }
};

class Matcher {
 public:
  static constexpr int kMost = 26;

  // Prefetches what `advance` reads.
  void prefetch_votes() const;

  // Prefetches what `search` reads: first the slots, then the texts that they point to.
  static void prefetch_slots(const Recent& recent, const Sources& sources);
  static void prefetch_texts(const Recent& recent, const Sources& sources);

  // Searches for the latest tokens and drops all earlier matches.
  void search(const Recent& recent, const Sources& sources);

  // Takes in a generated token: learns which matches were right and keeps those.
  void advance(Token token, Reliability& reliability);

  // Searches as if `tokens` had been generated, without learning. Keeps the matches that agree with
  // them and adds the matches of their own contexts.
  void assume(std::span<const Token> tokens, Recent recent, const Sources& sources);

  // Starts to follow a prediction: its first token is the best candidate for the next one.
  void expect(Store* prediction, Position begin);

  // Drops all matches in a store that is about to be destroyed.
  void drop(const Store* store);

  const Match* begin() const { return matches_.data(); }
  const Match* end() const { return matches_.data() + size_; }

 private:
  // Keeps the matches for which `is_right` holds and moves them one token on.
  template <class IsRight>
  void walk(IsRight is_right);
  void add_all(const Recent& recent, const Sources& sources);
  void add(const Recent& recent, Store* store, Position position, Kind kind, int least);
  void add_aligned(const Recent& recent, const Sources& sources);
  void add_found(const Recent& recent, Store* store, Region region, int quota);
  bool has(const Store* store, Position position) const;

  // The extent of the texts when they were searched.
  struct Extent {
    Position own_begin = 0;
    Position own_end = 0;
    Position tenant_begin = 0;
    Position tenant_end = 0;

    bool operator==(const Extent&) const = default;
  };
  static Extent extent_of(const Sources& sources);

  std::array<Match, kMost> matches_;
  int size_ = 0;
  Extent searched_extent_;
  Store* anchor_store_ = nullptr;  // store of the last long match
  Position anchor_ = 0;            // position up to which it went
  int anchor_age_ = 0;             // tokens generated since
};

}  // namespace specgate::suffix
