#include "index_source.hpp"

#include <algorithm>
#include <ranges>

namespace specgate::drafting {
namespace {

auto part(const auto& whole, int length) {
  return std::span(whole).first(static_cast<std::size_t>(length));
}

// Returns the origin of a draft whose first `predicted` tokens follow the request's prediction.
Origin origin_of(std::size_t length, std::size_t predicted) {
  if (predicted == 0) return {kSuffix};
  if (predicted >= length) return {kPrediction};
  return {kPrediction, kSuffix, predicted};
}

}  // namespace

std::size_t IndexSource::advance(std::span<Sequence> sequences, double floor, double trust,
                                 Drafts& drafts) {
  std::size_t room = 0;
  for (const Sequence& sequence : sequences) room += sequence.suffix_room();
  reserve(room);
  queries_.clear();
  std::size_t at = 0;
  for (const Sequence& sequence : sequences) {
    if (!sequence.request->in_source) continue;
    const std::size_t most = sequence.suffix_room();
    queries_.push_back({handle(*sequence.request), sequence.sampled, this->room(at, most)});
    at += most;
  }
  index_.advance(queries_, static_cast<float>(std::min(1.0, floor / trust)));
  auto query = queries_.begin();
  for (Sequence& sequence : sequences) {
    if (!sequence.request->in_source) continue;
    const suffix::Continuation& draft = query++->draft;
    if (draft.length == 0) continue;
    const auto trusted = [&](float stated) { return std::min(1.0, trust * stated); };
    sequence.best = drafts.add(part(draft.tokens, draft.length),
                               part(draft.survival, draft.length) | std::views::transform(trusted),
                               origin_of(static_cast<std::size_t>(draft.length),
                                         static_cast<std::size_t>(draft.predicted)));
  }
  return queries_.size();
}

Draft IndexSource::go_on(const Sequence& sequence, const Draft& sure, double floor,
                         Drafts& drafts) {
  const std::size_t most = sequence.room - sure.tokens;
  reserve(most);
  suffix::Continuation more = room(0, most);
  index_.propose_after(handle(*sequence.request), drafts.tokens(sure),
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
}

suffix::Continuation IndexSource::room(std::size_t at, std::size_t most) {
  return {std::span(tokens_).subspan(at, most), std::span(survival_).subspan(at, most), {}};
}

}  // namespace specgate::drafting
