// Asks the suffix index for drafts, for all sequences of a step in one call and without Python.
#pragma once

#include <vector>

#include "drafts.hpp"
#include "index.hpp"
#include "request.hpp"

namespace specgate::drafting {

class IndexSource {
 public:
  // The index must outlive it.
  explicit IndexSource(suffix::Index& index) : index_(index) {}

  // Tells the index what was generated for the sequences that it knows, and takes its drafts as
  // their best: at most `suffix_room` tokens each, none with a survival below `floor`. Survivals
  // are those that it states, times `trust`. If a step is in flight, the draft is what follows the
  // tokens that this step yields if the index is right; survivals include that it is. Returns how
  // many sequences it knows.
  std::size_t advance(std::span<Sequence> sequences, double floor, double trust,
                      Drafts& drafts);

  // Continues the head's draft, which must be the one added last. Returns no draft if the index
  // has nothing to add.
  Draft go_on(const Sequence& sequence, const Draft& draft, double floor, Drafts& drafts);

 private:
  // Returns the index's handle of a request, which is looked up by name only once.
  suffix::Handle handle(Request& request);
  void reserve(std::size_t tokens);
  // Returns memory for a draft of `most` tokens, from `at` on.
  suffix::Continuation room(std::size_t at, std::size_t most);

  suffix::Index& index_;
  std::vector<suffix::Query> queries_;
  // Memory for the drafts of a step, one after another.
  std::vector<Token> tokens_;
  std::vector<float> survival_;
};

}  // namespace specgate::drafting
