#include "python_source.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <vector>

namespace specgate::drafting {
namespace {

namespace nb = nanobind;
using namespace nb::literals;

struct Proposal {
  explicit Proposal(nb::handle draft)
      : tokens(nb::cast<std::vector<Token>>(draft.attr("tokens"))) {
    if (tokens.empty()) return;
    survival = nb::cast<std::vector<double>>(draft.attr("survival"));
    predicted = nb::cast<std::size_t>(draft.attr("predicted"));
  }

  std::vector<Token> tokens;
  std::vector<double> survival;
  std::size_t predicted = 0;
};

nb::list list_of(std::span<const Token> tokens) {
  nb::list items;
  for (const Token token : tokens) items.append(token);
  return items;
}

}  // namespace

void PythonSource::advance(std::span<Row> rows, double floor, Drafts& drafts) {
  for (Row& row : rows) {
    if (!row.request->in_source) continue;
    const Proposal draft(source_.attr("advance")(row.request->name, list_of(row.sampled),
                                                 row.suffix_room(), floor));
    if (draft.tokens.empty()) continue;
    row.best = drafts.add(draft.tokens, draft.survival,
                          origin_of(draft.tokens.size(), draft.predicted));
  }
}

Draft PythonSource::go_on(const Row& row, const Draft& sure, double floor, Drafts& drafts) {
  const Proposal more(source_.attr("go_on")(row.request->name, list_of(drafts.tokens(sure)),
                                            drafts.survival(sure).back(), row.room - sure.tokens,
                                            "floor"_a = floor));
  if (more.tokens.empty()) return {};
  return drafts.grow(sure, more.tokens, more.survival, kSuffix);
}

}  // namespace specgate::drafting
