// The suffix index as a step's source: asked for all rows at once, without a call of Python.
#pragma once

#include <vector>

#include "index.hpp"
#include "source.hpp"

namespace specgate::drafting {

class IndexSource final : public RowSource {
 public:
  // The index must outlive it.
  explicit IndexSource(suffix::Index& index) : index_(index) {}

  void advance(std::span<Row> rows, double floor, Drafts& drafts) override;
  Draft go_on(const Row& row, const Draft& draft, double floor, Drafts& drafts) override;

 private:
  // Where the index has a request: looked up by name once.
  suffix::Handle handle(Request& request);
  // Have room for so many tokens of drafts.
  void reserve(std::size_t tokens);
  // That of `most` tokens, behind the first `at`.
  suffix::Draft room(std::size_t at, std::size_t most);

  suffix::Index& index_;
  std::vector<suffix::Query> queries_;
  // What drafts are written to, one behind the other.
  std::vector<Token> tokens_;
  std::vector<float> survival_;
  std::vector<float> share_;
};

}  // namespace specgate::drafting
