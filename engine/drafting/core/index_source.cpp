#include "index_source.hpp"

namespace specgate::drafting {
namespace {

auto part(const auto& whole, int length) {
  return std::span(whole).first(static_cast<std::size_t>(length));
}

}  // namespace

void IndexSource::advance(std::span<Row> rows, double floor, Drafts& drafts) {
  std::size_t room = 0;
  for (const Row& row : rows) room += row.suffix_room();
  reserve(room);
  queries_.clear();
  std::size_t at = 0;
  for (const Row& row : rows) {
    if (!row.request->in_source) continue;
    const std::size_t most = row.suffix_room();
    queries_.push_back({handle(*row.request), row.sampled, this->room(at, most)});
    at += most;
  }
  index_.advance(queries_, static_cast<float>(floor));
  auto query = queries_.begin();
  for (Row& row : rows) {
    if (!row.request->in_source) continue;
    const suffix::Draft& draft = query++->draft;
    if (draft.length == 0) continue;
    row.best = drafts.add(part(draft.tokens, draft.length), part(draft.survival, draft.length),
                          origin_of(static_cast<std::size_t>(draft.length),
                                    static_cast<std::size_t>(draft.predicted)));
  }
}

Draft IndexSource::go_on(const Row& row, const Draft& sure, double floor, Drafts& drafts) {
  const std::size_t most = row.room - sure.tokens;
  reserve(most);
  suffix::Draft more = room(0, most);
  index_.propose_after(handle(*row.request), drafts.tokens(sure),
                       static_cast<float>(drafts.survival(sure).back()),
                       static_cast<float>(floor), more);
  if (more.length == 0) return {};
  return drafts.grow(sure, part(more.tokens, more.length), part(more.survival, more.length),
                     kSuffix);
}

suffix::Handle IndexSource::handle(Request& request) {
  if (request.handle.number == 0) request.handle = index_.handle(request.name);
  return request.handle;
}

void IndexSource::reserve(std::size_t tokens) {
  if (tokens_.size() >= tokens) return;
  tokens_.resize(tokens);
  survival_.resize(tokens);
  share_.resize(tokens);
}

suffix::Draft IndexSource::room(std::size_t at, std::size_t most) {
  return {std::span(tokens_).subspan(at, most), std::span(survival_).subspan(at, most),
          std::span(share_).subspan(at, most)};
}

}  // namespace specgate::drafting
