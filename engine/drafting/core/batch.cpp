#include "batch.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <utility>

#include "pricing.hpp"

namespace specgate::drafting {
namespace {

template <class T>
std::span<const T> upto(std::span<const T> all, std::size_t most) {
  return all.first(std::min(all.size(), most));
}

// What the head says of a draft also teaches what the next pass is worth: once, however many rows
// it is for (docs/adr/0025). Of what it brings the row to which it brings most.
constexpr double kLesson = 0.4;

bool begins_with(std::span<const Token> all, std::span<const Token> few) {
  return few.size() <= all.size() && std::ranges::equal(all.first(few.size()), few);
}

// In whose name the gate counts a source's tokens; a prediction is followed by the index.
policy::Drafter counted(Source source) {
  if (source == kHead) return policy::kByHead;
  return source == kNative ? policy::kByNative : policy::kBySuffix;
}

// Whether a draft came from the index, which knows nothing of the target's state.
bool is_of_source(const Draft& draft) {
  return draft.survival > 0 && (draft.origin.first == kSuffix || draft.origin.first == kPrediction);
}

// What a token of a row has to survive with.
double price_of(const Row& row, double price) {
  return row.request->price.value_or(price / row.request->count);
}

}  // namespace

Batch::Batch(policy::Gate& gate, policy::ForwardDrafter native, policy::ForwardDrafter head)
    : gate_(gate), native_(std::move(native)), head_(std::move(head)) {}

Request* Batch::find(std::string_view name) {
  const auto found = running_.find(std::string(name));
  return found == running_.end() ? nullptr : found->second.get();
}

Request& Batch::begin(std::string_view name, const Wishes& wishes) {
  auto request = std::make_unique<Request>();
  request->most = wishes.most;
  request->left = wishes.left;
  request->tokens = wishes.known;
  request->wants_suffix = wishes.suffix;
  request->price = wishes.price;
  request->name = name;
  const auto uses = [&](bool wanted, const policy::ForwardDrafter& drafter) {
    return wishes.most > 0 && wanted && drafter.most() > 0;
  };
  if (uses(wishes.head, head_)) request->head = head_.proposal_value(wishes.temperature);
  if (uses(wishes.native, native_)) request->native = native_.proposal_value(wishes.temperature);
  return *(running_[request->name] = std::move(request));
}

void Batch::clear() {
  rows_.clear();
  sampled_.clear();
  drafts_.clear();
}

void Batch::add(Request& request, std::size_t at, std::span<const Token> sampled) {
  rows_.push_back({&request, at, sampled, 0, {}});
  sampled_.insert(sampled_.end(), sampled.begin(), sampled.end());
}

void Batch::fetch_ahead() {
  for (const Row& row : rows_) row.request->prefetch();
  for (const Row& row : rows_) {
    if (row.request->native) row.request->native->prefetch();
    if (row.request->head) row.request->head->prefetch();
  }
}

void Batch::learn(policy::Load load) {
  fetch_ahead();
  const Token* sampled = sampled_.data();
  for (Row& row : rows_) {
    Request& request = *row.request;
    row.sampled = {sampled, row.sampled.size()};
    sampled += row.sampled.size();
    if (request.native) request.native->learn(row.sampled);
    if (request.head) request.head->learn(row.sampled);
    request.rate.learn(row.sampled.size());
    request.left -= static_cast<std::int64_t>(row.sampled.size());
    request.tokens += row.sampled.size();
    load.context_tokens += request.tokens;
    // The next step brings one token more than it drafts.
    const std::int64_t room = std::max<std::int64_t>(request.left - 1, 0);
    row.room = std::min(static_cast<std::size_t>(room), request.most);
  }
  account();
  for (const Row& row : rows_) row.request->count = gate_.count(row.request->rate);
  load.rows = rows_.size();
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
  for (const Row& row : rows_) {
    Request& request = *row.request;
    const std::size_t verified = std::exchange(request.drafted, 0);
    if (verified == 0) continue;
    drafted += verified;
    const std::size_t accepted = std::min(verified, row.sampled.size() - 1);
    expected += request.price ? static_cast<double>(accepted) : request.expected;
    if (request.price) continue;  // what it drafts says nothing of what the gate lets through
    const Origin& origin = request.origin;
    const std::size_t mine =
        origin.second == kNobody ? verified : std::min(verified, origin.first_length);
    Count& first = counts[counted(origin.first)];
    first.drafted += mine;
    first.accepted += std::min(mine, accepted);
    // Behind a first part that was refused the second one was not judged.
    if (accepted < mine || mine == verified) continue;
    Count& second = counts[counted(origin.second)];
    second.drafted += verified - mine;
    second.accepted += accepted - mine;
  }
  gate_.learn(rows_.size(), drafted, sampled_.size(), expected);
  for (const auto source : {policy::kBySuffix, policy::kByHead, policy::kByNative}) {
    gate_.learn_source(source, counts[source].drafted, counts[source].accepted);
  }
}

void Batch::ask() {
  const double floor = gate_.floor();
  floor_ = 1.0;
  for (const Row& row : rows_) floor_ = std::min(floor_, price_of(row, floor));
  suffix_floor_ = std::max(floor_, gate_.least(policy::kBySuffix));
  head_floor_ = std::max(floor_, gate_.least(policy::kByHead));
  if (source_ == nullptr) return;
  // A source that is shut is asked too: what it would have drafted is scored in hindsight.
  source_->advance(rows_, std::min(suffix_floor_, 1.0), drafts_);
  if (suffix_floor_ > 1.0) {
    for (Row& row : rows_) row.best = {};
  }
}

double Batch::settle() {
  pool_.clear();
  for (const Row& row : rows_) {
    if (row.request->price) continue;
    for (const double chance : drafts_.survival(row.best)) {
      pool_.push_back(chance * row.request->count);
    }
  }
  return gate_.settle(pool_);
}

void Batch::offer_native(Row& row, std::span<const Token> tokens, double price) {
  tokens = upto(tokens, native_.most());
  if (!row.request->native || tokens.empty()) return;
  const std::vector<double> survival = row.request->native->propose(tokens, std::nullopt);
  const std::size_t most =
      std::min(row.room, policy::paying(survival, gate_.least(policy::kByNative)));
  prefer(row, drafts_.add(upto(tokens, most), upto(std::span(survival), most), {kNative}), price);
}

double Batch::gain_of_head(const Row& row, double price) const {
  const policy::ProposalValue& head = *row.request->head;
  const double least = price_of(row, price);
  double gain = head.expected_gain(row.room, std::max(least, head_floor_));
  // Above what the row has.
  if (row.best && gain > 0.0) gain = std::max(0.0, gain - drafts_.gain(row.best, least));
  if (!is_of_source(row.best)) return gain;
  // The former follows the price at once, the latter what the head said at the prices of late.
  return std::max(gain, head.expected_gain_beside(drafts_.survival(row.best).front()));
}

std::vector<Row*> Batch::head_rows(double price) {
  struct Wanted {
    Row* row;
    double gain;
  };
  std::vector<Row*> able;
  std::vector<Row*> chosen;
  std::vector<Wanted> wanted;
  for (Row& row : rows_) {
    if (!row.request->head || row.room == 0) continue;
    able.push_back(&row);
    if (row.request->price) {
      chosen.push_back(&row);  // asks for it, whatever it costs
    } else if (const double gain = gain_of_head(row, price); gain > 0.0) {
      wanted.push_back({&row, gain * row.request->count});
    }
  }
  std::ranges::stable_sort(wanted, std::ranges::greater{}, &Wanted::gain);
  const std::size_t asked_for = chosen.size();
  std::size_t most = 0;
  double gains = 0.0;
  if (!wanted.empty() && is_of_source(wanted.front().row->best)) {
    gains = kLesson * wanted.front().gain;
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
  for (const Wanted& each : std::span(wanted).first(most)) chosen.push_back(each.row);
  if (!head_.runs(!chosen.empty())) return {};
  if (chosen.empty()) {
    for (const std::size_t at : head_.trial(able.size())) chosen.push_back(able[at]);
  }
  std::ranges::sort(chosen, {}, &Row::at);
  return chosen;
}

void Batch::offer_head(Row& row, std::span<const Token> tokens,
                       std::span<const double> confidence, double price) {
  policy::ProposalValue& head = *row.request->head;
  const std::vector<double> alone = head.propose(tokens, confidence);
  if (!is_of_source(row.best)) {
    prefer(row, head_draft(row, tokens, alone, price), price);
    return;
  }
  const double least = price_of(row, price);
  const double first = drafts_.survival(row.best).front();
  const std::size_t bought = drafts_.paying(row.best, least);
  const auto decision = head.weigh({drafts_.tokens(row.best), drafts_.survival(row.best)});
  drafts_.believe(row.best, decision.draft);
  double without = 0.0;  // what would be drafted if the head had said nothing
  for (const double chance : std::span(decision.draft).first(bought)) without += chance - least;
  // Where the draft begins with what the guess is sure of, it is that and more already.
  const std::size_t sure = policy::paying(decision.guess, head_floor_);
  const auto known = drafts_.tokens(row.best).first(row.best.survival);
  if (!begins_with(known, tokens.first(sure))) {
    prefer(row, head_draft(row, tokens, decision.guess, price), price);
  }
  // At a price of its own it brings what it would bring nobody else.
  if (!row.request->price) head.brought(first, drafts_.gain(row.best, least) - without);
}

Draft Batch::head_draft(const Row& row, std::span<const Token> tokens,
                        std::span<const double> survival, double price) {
  const std::size_t length = policy::paying(survival, head_floor_);
  const bool may_go_on = source_ != nullptr && row.request->in_source &&
                         row.request->wants_suffix && suffix_floor_ <= 1.0;
  // What nobody buys ends the draft: what is behind it is no surer.
  if (may_go_on && length > 0 && length < row.room &&
      survival[length - 1] >= price_of(row, price)) {
    const Draft sure = drafts_.add(tokens.first(length), survival.first(length), {kHead});
    if (const Draft longer = source_->go_on(row, sure, suffix_floor_, drafts_)) return longer;
  }
  const std::size_t most =
      std::min(row.room, policy::paying(survival, gate_.least(policy::kByHead)));
  return drafts_.add(upto(tokens, most), upto(survival, most), {kHead});
}

void Batch::prefer(Row& row, const Draft& draft, double price) {
  price = price_of(row, price);
  if (draft && (!row.best || drafts_.gain(draft, price) > drafts_.gain(row.best, price))) {
    row.best = draft;
  }
}

std::size_t Batch::cut(Row& row, double price) {
  Request& request = *row.request;
  const auto survival = drafts_.survival(row.best);
  if (request.price) {
    request.drafted = policy::paying(survival, *request.price);
  } else {
    request.drafted = gate_.buys() ? policy::paying(survival, price, request.count) : 0;
  }
  const auto bought = survival.first(request.drafted);
  request.expected = std::accumulate(bought.begin(), bought.end(), 0.0);
  request.origin = row.best.origin;
  return request.drafted;
}

Decision Batch::judge(bool proposed, bool drafted) {
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
