// What a source is to a step: something that drafts on the CPU from token ids alone.
#pragma once

#include <span>

#include "drafts.hpp"
#include "request.hpp"

namespace specgate::drafting {

class RowSource {
 public:
  virtual ~RowSource() = default;

  // For the rows that the source knows: take in what was generated, and draft up to `suffix_room`
  // tokens, none less sure than `floor`; becomes the row's best.
  virtual void advance(std::span<Row> rows, double floor, Drafts& drafts) = 0;

  // Go on behind the head's draft, which was added last, where the source knows how.
  virtual Draft go_on(const Row& row, const Draft& draft, double floor, Drafts& drafts) = 0;
};

// Whose a draft of the suffix source is, whose first `followed` tokens follow a prediction.
inline Origin origin_of(std::size_t length, std::size_t followed) {
  if (followed == 0) return {kSuffix};
  if (followed >= length) return {kPrediction};
  return {kPrediction, kSuffix, followed};
}

}  // namespace specgate::drafting
