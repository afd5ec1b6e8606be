#include "batch.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
#include <numeric>
#include <utility>

#include "pricing.hpp"

namespace specgate::drafting {
namespace {

template <class T>
std::span<const T> first_of(std::span<const T> all, std::size_t most) {
  return all.first(std::min(all.size(), most));
}

bool begins_with(std::span<const Token> all, std::span<const Token> few) {
  return few.size() <= all.size() && std::ranges::equal(all.first(few.size()), few);
}

// Whether the draft came from the suffix index.
bool is_from_index(const Draft& draft) {
  return draft.survival > 0 && (draft.origin.first == kSuffix || draft.origin.first == kPrediction);
}

// Returns the survival that a token of the sequence needs at this price.
double price_of(const Sequence& sequence, double price) {
  return sequence.request->price.value_or(price);
}

}  // namespace

Batch::Batch(policy::Gate& gate, suffix::Index* index, policy::ForwardDrafter native,
             policy::ForwardDrafter head)
    : gate_(gate), native_(std::move(native)), head_(std::move(head)) {
  if (index != nullptr) source_.emplace(*index);
}

Request* Batch::find(std::string_view name) {
  const auto found = running_.find(std::string(name));
  return found == running_.end() ? nullptr : found->second.get();
}

Request& Batch::begin(std::string_view name, const RequestOptions& options) {
  auto request = std::make_unique<Request>();
  request->most = options.most;
  request->left = options.left;
  request->tokens = options.known;
  request->wants_suffix = options.suffix;
  request->price = options.price;
  request->name = name;
  const auto uses = [&](bool wanted, const policy::ForwardDrafter& drafter) {
    return options.most > 0 && wanted && drafter.most() > 0;
  };
  if (uses(options.head, head_)) request->head = head_.proposals(options.temperature);
  if (uses(options.native, native_)) request->native = native_.proposals(options.temperature);
  return *(running_[request->name] = std::move(request));
}

void Batch::clear() {
  sequences_.clear();
  sampled_.clear();
  drafts_.clear();
}

void Batch::add(Request& request, std::size_t at, std::span<const Token> sampled,
                std::size_t verified, InFlight in_flight) {
  sequences_.push_back({&request, at, sampled, verified, in_flight, 0, {}});
  sampled_.insert(sampled_.end(), sampled.begin(), sampled.end());
}

void Batch::fetch_ahead() {
  for (const Sequence& sequence : sequences_) sequence.request->prefetch();
  for (const Sequence& sequence : sequences_) {
    if (sequence.request->native) sequence.request->native->prefetch();
    if (sequence.request->head) sequence.request->head->prefetch();
  }
}

void Batch::learn(policy::Load load) {
  fetch_ahead();
  const Token* sampled = sampled_.data();
  for (Sequence& sequence : sequences_) {
    Request& request = *sequence.request;
    sequence.sampled = {sampled, sequence.sampled.size()};
    sampled += sequence.sampled.size();
    if (request.native) request.native->learn(sequence.sampled);
    if (request.head) request.head->learn(sequence.sampled);
    request.left -= static_cast<std::int64_t>(sequence.sampled.size());
    request.tokens += sequence.sampled.size();
    load.context_tokens += request.tokens;
    // Each step yields one token more than it accepts drafts.
    const std::int64_t room = std::max<std::int64_t>(request.left - (sequence.in_flight ? 2 : 1), 0);
    sequence.room = std::min(static_cast<std::size_t>(room), request.most);
    if (sequence.in_flight == kAbsent) sequence.room = 0;
  }
  account();
  load.sequences = sequences_.size();
  context_tokens_ = load.context_tokens;
  gate_.begin(load);
  const double floor = gate_.floor();
  floor_ = 1.0;
  for (const Sequence& sequence : sequences_) {
    floor_ = std::min(floor_, price_of(sequence, floor));
  }
}

void Batch::account() {
  std::size_t drafted = 0;
  double stated = 0.0;
  std::size_t kept = 0;
  for (const Sequence& sequence : sequences_) {
    Request& request = *sequence.request;
    if (request.unknown_steps > 0) {
      const Chosen& known = request.chosen[0];
      // vLLM may have cut the draft.
      const std::size_t verified = std::min(known.tokens.size(), sequence.verified);
      drafted += verified;
      const auto mine = first_of(std::span<const double>(known.stated), verified);
      if (!mine.empty()) {
        stated += std::accumulate(mine.begin(), mine.end(), 0.0);
        kept += std::min(verified, sequence.sampled.size() - 1);
      }
      policy::Proposals* maker = request.proposals(known.on_device);
      if (maker != nullptr && verified > 0) {
        maker->learn_verified(verified, std::min(verified, sequence.sampled.size() - 1));
      }
      request.settle_oldest();
    }
    if (!sequence.in_flight) {
      request.unknown_steps = 0;  // a draft that no step took up
    } else if (*sequence.in_flight != kAbsent && request.unknown_steps == 0) {
      request.choose();  // nothing was drafted for the step in flight, which is unknown all the same
    }
  }
  gate_.learn(sequences_.size(), drafted, sampled_.size());
  gate_.learn_trust(stated, kept);
}

std::size_t Batch::ask() {
  return source_ ? source_->advance(sequences_, floor_, gate_.trust(), drafts_) : 0;
}

double Batch::settle() {
  pool_.clear();
  for (const Sequence& sequence : sequences_) {
    if (sequence.request->price) continue;
    std::ranges::copy(drafts_.survival(sequence.best), std::back_inserter(pool_));
  }
  return gate_.settle(pool_);
}

void Batch::offer_native(Sequence& sequence, std::span<const Token> tokens, double price) {
  tokens = first_of(tokens, native_.most());
  if (!sequence.request->native || tokens.empty()) return;
  const std::vector<double> survival = sequence.request->native->propose(tokens, std::nullopt);
  const auto known = first_of(std::span<const double>(survival), sequence.room);
  prefer(sequence, drafts_.add(first_of(tokens, sequence.room), known, {kNative}), price);
}

void Batch::offer_on_device(Source drafter, std::size_t most, double price) {
  const std::vector<Token> unknown(most, kOnDevice);
  for (Sequence& sequence : sequences_) {
    const policy::Proposals* proposals = sequence.request->proposals(drafter);
    if (proposals == nullptr) continue;
    const std::vector<double> survival = proposals->usual();
    const std::size_t length = std::min({most, sequence.room, survival.size()});
    prefer(sequence,
           drafts_.add(std::span(unknown).first(length), std::span(survival).first(length), {drafter}),
           price);
  }
}

policy::Offer Batch::offer_of_head(double price, std::vector<Sequence*>& better) {
  pool_.clear();
  for (Sequence& sequence : sequences_) {
    if (sequence.request->price) continue;
    const auto drafted = drafts_.survival(sequence.best);
    const std::vector<double> example =
        sequence.request->head ? sequence.request->head->example() : std::vector<double>{};
    const auto proposed = first_of(std::span(example), sequence.room);
    const bool is_better = policy::worth(proposed, price) > policy::worth(drafted, price);
    if (is_better) better.push_back(&sequence);
    std::ranges::copy(is_better ? proposed : drafted, std::back_inserter(pool_));
  }
  return gate_.offer(pool_);
}

std::vector<Sequence*> Batch::head_sequences(double price) {
  std::vector<Sequence*> better;
  const policy::Offer offer = offer_of_head(price, better);
  price = offer.price;
  struct Wanted {
    Sequence* sequence;
    double gain;
  };
  std::vector<Sequence*> able;
  std::vector<Sequence*> chosen;
  std::vector<Wanted> wanted;
  for (Sequence& sequence : sequences_) {
    if (!sequence.request->head || sequence.room == 0) continue;
    able.push_back(&sequence);
    if (sequence.request->price) {
      chosen.push_back(&sequence);  // has a price of its own: runs whatever it costs
      continue;
    }
    const double had = policy::worth(drafts_.survival(sequence.best), price);
    const double gain = sequence.request->head->expected_gain(sequence.room, price, had);
    if (gain > 0.0) wanted.push_back({&sequence, gain});
  }
  std::ranges::stable_sort(wanted, std::ranges::greater{}, &Wanted::gain);
  const std::size_t asked_for = chosen.size();
  std::size_t most = 0;
  double gains = 0.0;
  double best = asked_for > 0 ? -gate_.cost_of_pass(asked_for) : 0.0;
  for (std::size_t count = 1; count <= wanted.size(); ++count) {
    gains += wanted[count - 1].gain;
    const double net = gains - gate_.cost_of_pass(asked_for + count);
    if (net > best) {
      best = net;
      most = count;
    }
  }
  for (const Wanted& each : std::span(wanted).first(most)) chosen.push_back(each.sequence);
  // Tokens that do not pay at one price may together fill the step up to its next jump.
  if (chosen.empty() && !better.empty() && offer.gain > gate_.cost_of_pass(better.size())) {
    chosen = std::move(better);
  }
  if (!head_.runs(!chosen.empty())) return {};
  if (chosen.empty()) {
    for (const std::size_t at : head_.trial(able.size())) chosen.push_back(able[at]);
  }
  std::ranges::sort(chosen, {}, &Sequence::at);
  return chosen;
}

void Batch::offer_head(Sequence& sequence, std::span<const Token> tokens,
                       std::span<const double> confidence, double price) {
  if (tokens.empty()) return;
  policy::Proposals& head = *sequence.request->head;
  std::vector<double> survival = head.propose(tokens, confidence);
  if (is_from_index(sequence.best)) {
    auto weighed = head.weigh({drafts_.tokens(sequence.best), drafts_.survival(sequence.best)});
    drafts_.set_survival(sequence.best, weighed.draft);
    sequence.is_weighed = true;
    survival = std::move(weighed.proposal);
    // If the draft starts with the certain part of the proposal, it already contains it.
    const auto known = drafts_.tokens(sequence.best).first(sequence.best.survival);
    if (begins_with(known, tokens.first(policy::paying(survival, floor_)))) return;
  }
  prefer(sequence, head_draft(sequence, tokens, survival, price), price);
}

Draft Batch::head_draft(const Sequence& sequence, std::span<const Token> tokens,
                        std::span<const double> survival, double price) {
  const std::size_t length = policy::paying(survival, floor_);
  const Request& request = *sequence.request;
  // If the last token is not worth its price, no later token is.
  if (source_ && request.in_source && request.wants_suffix && length > 0 &&
      length < sequence.room && survival[length - 1] >= price_of(sequence, price)) {
    const Draft sure = drafts_.add(tokens.first(length), survival.first(length), {kHead});
    if (const Draft longer = source_->go_on(sequence, sure, floor_, drafts_)) return longer;
  }
  return drafts_.add(first_of(tokens, sequence.room), first_of(survival, sequence.room), {kHead});
}

void Batch::prefer(Sequence& sequence, const Draft& draft, double price) {
  price = price_of(sequence, price);
  const double had = policy::worth(drafts_.survival(sequence.best), price);
  if (draft && (!sequence.best || policy::worth(drafts_.survival(draft), price) > had)) {
    sequence.best = draft;
  }
}

std::size_t Batch::cut(Sequence& sequence, double price) {
  Request& request = *sequence.request;
  const auto survival = drafts_.survival(sequence.best);
  const bool is_bought = request.price || gate_.buys();
  const std::size_t length = is_bought ? policy::paying(survival, price_of(sequence, price)) : 0;
  Chosen& chosen = request.choose();
  const auto tokens = drafts_.tokens(sequence.best).first(length);
  chosen.tokens.assign(tokens.begin(), tokens.end());
  if (!tokens.empty() && tokens.front() == kOnDevice) chosen.on_device = sequence.best.origin.first;
  if (is_from_index(sequence.best) && !sequence.is_weighed && !request.price) {
    for (const double chance : survival.first(length)) {
      chosen.stated.push_back(chance / gate_.trust());
    }
  }
  return length;
}

Decision Batch::decide(bool proposed, bool drafted) const {
  if (gate_.is_limited() && !drafted) return kLimited;
  if (drafted) return kDrafted;
  return proposed ? kPricedOut : kUnknown;
}

std::size_t Batch::native_tokens() {
  const double floor = gate_.floor();
  const bool wanted =
      running_.empty() || std::any_of(running_.begin(), running_.end(), [&](const auto& entry) {
        const auto& native = entry.second->native;
        return native && native->expected_gain(native_.most(), floor) > 0.0;
      });
  return native_.runs(wanted) ? native_.most() : 0;
}

std::size_t Batch::head_tokens() const {
  std::size_t sequences = 0;
  double gain = 0.0;
  for (const auto& [name, request] : running_) {
    if (!request->head) continue;
    if (request->price) return head_.most();  // has a price of its own: runs whatever it costs
    ++sequences;
    gain += policy::worth(request->head->usual(), price_);
  }
  return sequences > 0 && gain > gate_.cost_of_pass(sequences) ? head_.most() : 0;
}

}  // namespace specgate::drafting
