// Places where the request's latest tokens were seen before, found when a draft is asked for.
//
// Candidates come from the tables of up to three stores (the request's own text, a prediction of
// its client, what its tenant got before), four a context length, and are compared with the text.
// Between drafts the matches walk along with what is generated; so it is known at each token which
// were right, and where a long one ended. Text near that end is looked through too: after an edit
// a copy goes on there, with too little context yet to be found by it. A copy of a matcher can walk
// ahead of the request, over tokens that another drafter proposes.
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
  Position next;  // of the token that it votes for
  std::uint8_t length;
  Kind kind;

  bool has_next() const { return store->text().contains(next); }
  Token vote() const { return store->text()[next]; }
};

// Where a request looks; the last two may be null.
struct Sources {
  Store* own;
  Store* prediction;
  Store* tenant;
};

// What is to come behind a request's own text. Its matches go on into it, so that a loop can be
// followed.
struct Ahead {
  const Store* own;
  std::span<const Token> proposed;  // by another drafter
  const Token* drafted;             // behind those

  // What a match votes for; kGap where its text has ended.
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

  // Bring into the cache what `advance` looks at.
  void prefetch_votes() const;

  // Bring into the cache what `search` looks at: first where to look, then what is there.
  static void prefetch_slots(const Recent& recent, const Sources& sources);
  static void prefetch_texts(const Recent& recent, const Sources& sources);

  // Search for the latest tokens; what was found before is dropped.
  void search(const Recent& recent, const Sources& sources);

  // A token was generated: learn who was right, keep those that were.
  void advance(Token token, Reliability& reliability);

  // Search as if `tokens` had been generated too, and learn nothing: matches that agree with them
  // stay, and those of their own contexts join.
  void foresee(std::span<const Token> tokens, Recent recent, const Sources& sources);

  // A prediction begins: its first token is the best guess for the next one.
  void expect(Store* prediction, Position begin);

  // A store is about to go.
  void drop(const Store* store);

  const Match* begin() const { return matches_.data(); }
  const Match* end() const { return matches_.data() + size_; }

 private:
  // Keep the matches of which `is_right` holds, one token on.
  template <class IsRight>
  void walk(IsRight is_right);
  void add_all(const Recent& recent, const Sources& sources);
  void add(const Recent& recent, Store* store, Position position, Kind kind, int least);
  void add_aligned(const Recent& recent, const Sources& sources);
  void add_found(const Recent& recent, Store* store, Origin origin, int quota);
  bool has(const Store* store, Position position) const;

  // Up to where texts reached, and from where, when they were searched.
  struct Searched {
    Position own_begin = 0;
    Position own_end = 0;
    Position tenant_begin = 0;
    Position tenant_end = 0;

    bool operator==(const Searched&) const = default;
  };
  static Searched extent_of(const Sources& sources);

  std::array<Match, kMost> matches_;
  int size_ = 0;
  Searched searched_;
  Store* anchor_store_ = nullptr;  // where the last long match was, or went on to
  Position anchor_ = 0;
  int anchor_age_ = 0;  // tokens since
};

}  // namespace specgate::suffix
