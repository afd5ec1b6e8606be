#include "index_source.hpp"

#include <algorithm>
#include <ranges>
#include <span>

namespace specgate::drafting {
namespace {

auto part(const auto& whole, int length) {
  return std::span(whole).first(static_cast<std::size_t>(length));
}

// Returns how many tokens of a continuation the step in flight yields if the continuation is right:
// its draft as far as both agree, and one token more.
std::size_t yield_of(const Sequence& sequence, std::span<const Token> continuation) {
  if (!sequence.in_flight) return 0;
  const std::span<const Token> draft(sequence.request->chosen[0].tokens);
  const std::size_t verified = std::min(draft.size(), sequence.most_yield() - 1);
  const auto ends = std::ranges::mismatch(draft.first(verified), continuation);
  return static_cast<std::size_t>(ends.in2 - continuation.begin()) + 1;
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
  const auto most_of = [](const Sequence& sequence) -> std::size_t {
    const std::size_t most = sequence.suffix_room();
    if (most == 0) return 0;
    return std::min(most + sequence.most_yield(), std::size_t{suffix::kLongestDraft});
  };
  std::size_t room = 0;
  for (const Sequence& sequence : sequences) room += most_of(sequence);
  reserve(room);
  queries_.clear();
  std::size_t at = 0;
  for (const Sequence& sequence : sequences) {
    if (!sequence.request->in_source) continue;
    const std::size_t most = most_of(sequence);
    queries_.push_back({handle(*sequence.request), sequence.sampled, this->room(at, most)});
    at += most;
  }
  index_.advance(queries_, static_cast<float>(std::min(1.0, floor / trust)));
  auto query = queries_.begin();
  for (Sequence& sequence : sequences) {
    if (!sequence.request->in_source) continue;
    const suffix::Continuation& draft = query++->draft;
    const auto tokens = part(draft.tokens, draft.length);
    const std::size_t known = yield_of(sequence, tokens);
    if (known >= tokens.size()) continue;
    const auto predicted = static_cast<std::size_t>(draft.predicted);
    const auto trusted = [&](float stated) { return std::min(1.0, trust * stated); };
    const std::size_t length = std::min(tokens.size() - known, sequence.room);
    sequence.best = drafts.add(
        tokens.subspan(known, length),
        part(draft.survival, draft.length).subspan(known, length) | std::views::transform(trusted),
        origin_of(length, predicted - std::min(predicted, known)));
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
