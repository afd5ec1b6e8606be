// Places where the request's latest tokens were seen before, found when a draft is asked for.
//
// Candidates come from the tables of up to three stores (the request's own text, a prediction of
// its client, what its tenant got before), four a context length, and are compared with the text.
// Between drafts the matches walk along with what is generated; so it is known at each token which
// were right, and where a long one ended. Text near that end is looked through too: after an edit
// a copy goes on there, with too little context yet to be found by it.
#pragma once

#include <array>
#include <cstdint>

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

class Matcher {
 public:
  static constexpr int kMost = 26;

  // Search for the latest tokens; what was found before is dropped.
  void search(const Recent& recent, const Sources& sources);

  // A token was generated: learn who was right, keep those that were.
  void advance(Token token, Reliability& reliability);

  // A prediction begins: its first token is the best guess for the next one.
  void expect(Store* prediction, Position begin);

  // A store is about to go.
  void drop(const Store* store);

  const Match* begin() const { return matches_.data(); }
  const Match* end() const { return matches_.data() + size_; }

 private:
  void add(const Recent& recent, Store* store, Position position, Kind kind, int least);
  void add_aligned(const Recent& recent, const Sources& sources);
  void add_found(const Recent& recent, Store* store, Origin origin, int quota);
  bool has(const Store* store, Position position) const;

  std::array<Match, kMost> matches_;
  int size_ = 0;
  Store* anchor_store_ = nullptr;  // where the last long match was, or went on to
  Position anchor_ = 0;
  Origin anchor_origin_ = Origin::kOwn;
  int anchor_age_ = 0;  // tokens since
};

}  // namespace specgate::suffix
