#include "batch.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <utility>

#include "pricing.hpp"
#include "second_opinion.hpp"

namespace specgate::drafting {
namespace {

template <class T>
std::span<const T> first_of(std::span<const T> all, std::size_t most) {
  return all.first(std::min(all.size(), most));
}

// A pass beside drafts of the index also teaches what such passes are worth. This part of the
// largest gain is added for that, once per pass (docs/adr/0025).
constexpr double kLearningBonus = 0.4;

bool begins_with(std::span<const Token> all, std::span<const Token> few) {
  return few.size() <= all.size() && std::ranges::equal(all.first(few.size()), few);
}

// Returns the source under which the gate counts tokens. The index follows predictions too.
policy::Drafter counted(Source source) {
  if (source == kHead) return policy::kByHead;
  return source == kNative ? policy::kByNative : policy::kBySuffix;
}

// Whether the draft came from the suffix index.
bool is_from_index(const Draft& draft) {
  return draft.survival > 0 && (draft.origin.first == kSuffix || draft.origin.first == kPrediction);
}

// Returns the survival that a token of the sequence needs at this price.
double price_of(const Sequence& sequence, double price) {
  return sequence.request->price.value_or(price / sequence.request->weight);
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
  if (uses(options.head, head_)) request->head = head_.proposal_value(options.temperature);
  if (uses(options.native, native_)) request->native = native_.proposal_value(options.temperature);
  return *(running_[request->name] = std::move(request));
}

void Batch::clear() {
  sequences_.clear();
  sampled_.clear();
  drafts_.clear();
}

void Batch::add(Request& request, std::size_t at, std::span<const Token> sampled) {
  sequences_.push_back({&request, at, sampled, 0, {}});
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
    request.rate.learn(sequence.sampled.size());
    request.left -= static_cast<std::int64_t>(sequence.sampled.size());
    request.tokens += sequence.sampled.size();
    load.context_tokens += request.tokens;
    // The next step yields one token more than it accepts drafts.
    const std::int64_t room = std::max<std::int64_t>(request.left - 1, 0);
    sequence.room = std::min(static_cast<std::size_t>(room), request.most);
  }
  account();
  for (const Sequence& sequence : sequences_) sequence.request->weight = gate_.token_weight(sequence.request->rate);
  load.sequences = sequences_.size();
  context_tokens_ = load.context_tokens;
  gate_.begin(load);
}

void Batch::account() {
  struct Count {
    std::size_t drafted = 0;
    std::size_t accepted = 0;
  };
  std::array<Count, policy::kDraftersEnd> counts{};
  std::size_t drafted = 0;
  double expected = 0.0;
  for (const Sequence& sequence : sequences_) {
    Request& request = *sequence.request;
    const std::size_t verified = std::exchange(request.drafted, 0);
    if (verified == 0) continue;
    drafted += verified;
    const std::size_t accepted = std::min(verified, sequence.sampled.size() - 1);
    expected += request.price ? static_cast<double>(accepted) : request.expected;
    if (request.price) continue;  // its drafts were not chosen by the gate
    const Origin& origin = request.origin;
    const std::size_t mine =
        origin.second == kNone ? verified : std::min(verified, origin.first_length);
    Count& first = counts[counted(origin.first)];
    first.drafted += mine;
    first.accepted += std::min(mine, accepted);
    // After a rejection in the first part the second part was not verified.
    if (accepted < mine || mine == verified) continue;
    Count& second = counts[counted(origin.second)];
    second.drafted += verified - mine;
    second.accepted += accepted - mine;
  }
  gate_.learn(sequences_.size(), drafted, sampled_.size(), expected);
  for (const auto source : {policy::kBySuffix, policy::kByHead, policy::kByNative}) {
    gate_.learn_source(source, counts[source].drafted, counts[source].accepted);
  }
}

void Batch::ask() {
  const double floor = gate_.floor();
  floor_ = 1.0;
  for (const Sequence& sequence : sequences_) floor_ = std::min(floor_, price_of(sequence, floor));
  suffix_floor_ = std::max(floor_, gate_.least(policy::kBySuffix));
  head_floor_ = std::max(floor_, gate_.least(policy::kByHead));
  if (!source_) return;
  // A source that is shut is asked too: the index scores the draft in hindsight and learns.
  source_->advance(sequences_, std::min(suffix_floor_, 1.0), drafts_);
  if (suffix_floor_ > 1.0) {
    for (Sequence& sequence : sequences_) sequence.best = {};
  }
}

double Batch::settle() {
  pool_.clear();
  for (const Sequence& sequence : sequences_) {
    if (sequence.request->price) continue;
    for (const double chance : drafts_.survival(sequence.best)) {
      pool_.push_back(chance * sequence.request->weight);
    }
  }
  return gate_.settle(pool_);
}

void Batch::offer_native(Sequence& sequence, std::span<const Token> tokens, double price) {
  tokens = first_of(tokens, native_.most());
  if (!sequence.request->native || tokens.empty()) return;
  const std::vector<double> survival = sequence.request->native->propose(tokens, std::nullopt);
  const std::size_t most =
      std::min(sequence.room, policy::paying(survival, gate_.least(policy::kByNative)));
  prefer(sequence, drafts_.add(first_of(tokens, most), first_of(std::span(survival), most), {kNative}), price);
}

double Batch::gain_of_head(const Sequence& sequence, double price) const {
  const policy::ProposalValue& head = *sequence.request->head;
  const double least = price_of(sequence, price);
  double gain = head.expected_gain(sequence.room, std::max(least, head_floor_));
  // Beyond the draft that the sequence has.
  if (sequence.best && gain > 0.0) gain = std::max(0.0, gain - drafts_.gain(sequence.best, least));
  if (!is_from_index(sequence.best)) return gain;
  // The first estimate follows the price at once, the second is learnt at recent prices.
  return std::max(gain, head.expected_gain_beside(drafts_.survival(sequence.best).front()));
}

std::vector<Sequence*> Batch::head_sequences(double price) {
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
    } else if (const double gain = gain_of_head(sequence, price); gain > 0.0) {
      wanted.push_back({&sequence, gain * sequence.request->weight});
    }
  }
  std::ranges::stable_sort(wanted, std::ranges::greater{}, &Wanted::gain);
  const std::size_t asked_for = chosen.size();
  std::size_t most = 0;
  double gains = 0.0;
  if (!wanted.empty() && is_from_index(wanted.front().sequence->best)) {
    gains = kLearningBonus * wanted.front().gain;
  }
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
  if (!head_.runs(!chosen.empty())) return {};
  if (chosen.empty()) {
    for (const std::size_t at : head_.trial(able.size())) chosen.push_back(able[at]);
  }
  std::ranges::sort(chosen, {}, &Sequence::at);
  return chosen;
}

void Batch::offer_head(Sequence& sequence, std::span<const Token> tokens,
                       std::span<const double> confidence, double price) {
  policy::ProposalValue& head = *sequence.request->head;
  const std::vector<double> alone = head.propose(tokens, confidence);
  if (!is_from_index(sequence.best)) {
    prefer(sequence, head_draft(sequence, tokens, alone, price), price);
    return;
  }
  const double least = price_of(sequence, price);
  const double first = drafts_.survival(sequence.best).front();
  const std::size_t bought = drafts_.paying(sequence.best, least);
  const auto weighed = head.weigh({drafts_.tokens(sequence.best), drafts_.survival(sequence.best)});
  drafts_.set_survival(sequence.best, weighed.draft);
  double without = 0.0;  // gain of the draft as it would be cut without the head
  for (const double chance : std::span(weighed.draft).first(bought)) without += chance - least;
  // If the draft starts with the certain part of the proposal, it already contains it.
  const std::size_t sure = policy::paying(weighed.proposal, head_floor_);
  const auto known = drafts_.tokens(sequence.best).first(sequence.best.survival);
  if (!begins_with(known, tokens.first(sure))) {
    prefer(sequence, head_draft(sequence, tokens, weighed.proposal, price), price);
  }
  // At a price of its own the gain says nothing about other requests.
  if (!sequence.request->price) head.learn_gain(first, drafts_.gain(sequence.best, least) - without);
}

Draft Batch::head_draft(const Sequence& sequence, std::span<const Token> tokens,
                        std::span<const double> survival, double price) {
  const std::size_t length = policy::paying(survival, head_floor_);
  const bool may_go_on = source_ && sequence.request->in_source &&
                         sequence.request->wants_suffix && suffix_floor_ <= 1.0;
  // If the last token is not worth its price, no later token is.
  if (may_go_on && length > 0 && length < sequence.room &&
      survival[length - 1] >= price_of(sequence, price)) {
    const Draft sure = drafts_.add(tokens.first(length), survival.first(length), {kHead});
    if (const Draft longer = source_->go_on(sequence, sure, suffix_floor_, drafts_)) return longer;
  }
  const std::size_t most =
      std::min(sequence.room, policy::paying(survival, gate_.least(policy::kByHead)));
  return drafts_.add(first_of(tokens, most), first_of(survival, most), {kHead});
}

void Batch::prefer(Sequence& sequence, const Draft& draft, double price) {
  price = price_of(sequence, price);
  if (draft && (!sequence.best || drafts_.gain(draft, price) > drafts_.gain(sequence.best, price))) {
    sequence.best = draft;
  }
}

std::size_t Batch::cut(Sequence& sequence, double price) {
  Request& request = *sequence.request;
  const auto survival = drafts_.survival(sequence.best);
  if (request.price) {
    request.drafted = policy::paying(survival, *request.price);
  } else {
    request.drafted = gate_.buys() ? policy::paying(survival, price, request.weight) : 0;
  }
  const auto bought = survival.first(request.drafted);
  request.expected = std::accumulate(bought.begin(), bought.end(), 0.0);
  request.origin = sequence.best.origin;
  return request.drafted;
}

Decision Batch::decide(bool proposed, bool drafted) {
  Decision decision = proposed ? kPricedOut : kUnknown;
  if (drafted) decision = kDrafted;
  if (gate_.is_probing() && proposed) decision = kProbed;
  if (gate_.is_limited() && !drafted) decision = kLimited;
  const bool was_asked = decision != kUnknown && decision != kProbed;
  has_turned_ = was_asked && regime_.learn(drafted);
  return decision;
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

}  // namespace specgate::drafting
