#include "index.hpp"

#include <algorithm>
#include <memory>
#include <new>
#include <vector>

#include "errors.hpp"
#include "tenant.hpp"

namespace specgate::suffix {

namespace {

constexpr float kHottest = 2.0f;  // higher temperatures count as this one

void check_tokens(std::span<const Token> tokens) {
  if (tokens.empty()) throw BadInput("tokens: there are none");
}

void check_name(std::string_view name) {
  if (name.empty()) throw BadInput("a name must not be empty");
  if (name.size() > Index::kLongestName) throw BadInput("a name must have at most 1024 bytes");
}

bool is_probability(float value) { return value >= 0.0f && value <= 1.0f; }

void check_draft(float min_survival, std::size_t tokens) {
  if (!is_probability(min_survival)) throw BadInput("min_survival: must be from 0 to 1");
  if (tokens > kLongestDraft) throw BadInput("max_tokens: over the limit of 256");
}

void check_proposed(std::span<const Token> tokens, float survival) {
  check_tokens(tokens);
  if (tokens.size() > kLongestDraft) throw BadInput("tokens: over the limit of 256");
  if (!is_probability(survival)) throw BadInput("survival: must be from 0 to 1");
}

}  // namespace

Index::Index(std::size_t capacity_bytes, std::uint64_t vocabulary, std::uint64_t salt)
    : vocabulary_(vocabulary), pool_(capacity_bytes), hash_(salt) {
  if (pool_.capacity_blocks() < kLeastBlocks) {
    throw BadInput("capacity_bytes: must be at least 1 MiB");
  }
  if (pool_.capacity_blocks() > kMostBlocks) {
    throw BadInput("capacity_bytes: must be at most 64 GiB");
  }
  if (vocabulary == 0 || vocabulary > kMostTokens) {
    throw BadInput("vocabulary: must be from 1 to 2147483648");
  }
}

Index::~Index() = default;

void Index::GiveBack::operator()(Follower* request) const {
  std::destroy_at(request);
  pool->give_back(request);
}

void Index::start(std::string_view name, std::string_view tenant_name,
                  std::span<const Token> prompt, float temperature) {
  check_tokens(prompt);
  check_name(name);
  check_name(tenant_name);
  std::vector<Token> copy;
  prompt = with_gaps(prompt, copy);
  std::scoped_lock lock(mutex_);
  if (requests_.contains(name)) throw DuplicateRequest("the request is running already");
  const auto slot = std::find(slots_.begin(), slots_.end(), nullptr) - slots_.begin();
  if (static_cast<std::size_t>(slot) == slots_.size()) slots_.push_back(nullptr);
  const bool is_new = !tenants_.contains(tenant_name);
  Tenant& tenant = tenant_of(tenant_name);
  static_assert(sizeof(Follower) <= Follower::kFixedBlocks * kBlockBytes);
  tenant.last_used = ++clock_;
  if (!make_room(tenant, Follower::kFixedBlocks + Store(pool_, hash_).blocks_for(1))) {
    if (is_new) drop(tenant);
    throw OutOfRoom("running requests use all of the index's memory");
  }
  reserve_more(tenant.requests, 1);  // so that the constructor cannot fail
  // In a block of the pool, because blocks may lie on huge pages.
  OwnedFollower request(new (pool_.take()) Follower(tenant, pool_, hash_), {&pool_});
  request->recent.push(prompt);
  request->outcomes.temperature = std::min(temperature, kHottest);
  // If the prompt does not fit, keep its latest part.
  while (!reserve(tenant, request->own, prompt.size())) {
    if (prompt.empty()) throw OutOfRoom("the system has no memory for the request");
    prompt = prompt.last(prompt.size() / 2);
  }
  request->own.presize(prompt.size());
  request->own.append(prompt);
  request->recount();
  request->answer = request->own.text().end();
  request->handle = {static_cast<std::uint32_t>(slot), clock_};
  Follower& started = *request;
  requests_.emplace(name, std::move(request));
  slots_[started.handle.slot] = &started;
}

void Index::extend(std::string_view name, std::span<const Token> tokens) {
  check_tokens(tokens);
  std::scoped_lock lock(mutex_);
  extend_for(find(name), tokens);
}

void Index::extend_for(Follower& request, std::span<const Token> tokens) {
  Model& model = request.tenant->model;
  tokens = with_gaps(tokens, replaced_);
  if (request.pending.asked) score(request, tokens);
  for (const Token token : tokens) {
    if (token == kGap) {
      request.matcher = {};  // nothing can be learnt from it, and no match goes on
    } else {
      request.matcher.advance(token, model.reliability);
    }
    request.recent.push(token);
  }
  append_own(request, tokens);
}

void Index::score(Follower& request, std::span<const Token> tokens) {
  Pending& pending = request.pending;
  SurvivalModel& survival = request.tenant->model.survival;
  const auto most = std::min(static_cast<std::size_t>(pending.scored), tokens.size());
  for (const auto& [taken, rival] : std::span(pending.choices).first(most)) {
    survival.prefetch(taken.features);
    if (rival.token != kGap) survival.prefetch(rival.features);
  }
  int accepted = 0;
  for (std::size_t i = 0; i < most; ++i) {
    const auto& [taken, rival] = pending.choices[i];
    const bool right = taken.token == tokens[i];
    survival.learn(taken.features, taken.score, right);
    if (rival.token != kGap) {
      survival.learn(rival.features, rival.score, rival.token == tokens[i]);
    }
    if (!right) break;
    if (accepted < pending.drafted) ++accepted;
  }
  // A wrong token is followed by the right one. Where all that came is right, the answer has ended
  // or the step was cut, and the rest of the draft is not refused.
  const bool is_cut = static_cast<std::size_t>(accepted) == tokens.size();
  const int verified = is_cut ? accepted : pending.drafted;
  if (verified > 0) request.outcomes.learn(accepted, verified);
  pending.clear();
}

void Index::append_own(Follower& request, std::span<const Token> tokens) {
  if (!request.has_room) return;
  while (!reserve(*request.tenant, request.own, tokens.size())) {
    request.has_room = shorten(request);
    if (!request.has_room) return;
  }
  request.own.append(tokens);
  request.recount();
}

void Index::predict(std::string_view name, std::span<const Token> tokens) {
  check_tokens(tokens);
  std::vector<Token> copy;
  tokens = with_gaps(tokens, copy);
  std::scoped_lock lock(mutex_);
  Follower& request = find(name);
  if (!request.has_room) return;
  if (request.prediction) {
    request.matcher.drop(&*request.prediction);
  }
  request.prediction.emplace(pool_, hash_);
  request.recount();
  while (!reserve(*request.tenant, *request.prediction, tokens.size())) {
    tokens = tokens.first(tokens.size() / 2);
    if (tokens.empty()) return request.prediction.reset();
  }
  request.prediction->presize(tokens.size());
  request.prediction->append(tokens);
  request.matcher.expect(&*request.prediction, request.prediction->text().begin());
  request.recount();
}

void Index::propose(std::string_view name, float min_survival, Continuation& draft) {
  check_draft(min_survival, draft.tokens.size());
  std::scoped_lock lock(mutex_);
  Follower& request = find(name);
  request.prefetch_slots();
  request.prefetch_texts();
  propose_for(request, min_survival, draft);
}

void Index::propose_for(Follower& request, float min_survival, Continuation& draft) {
  draft.length = draft.predicted = 0;
  if (!request.has_room) return;
  const Sources sources = request.sources();
  request.matcher.search(request.recent, sources);
  vote(request.matcher, sources, {request.recent.newest()}, request.tenant->model,
       request.outcomes, min_survival, draft, request.pending);
  request.pending.asked = true;
}

void Index::propose_after(std::string_view name, std::span<const Token> tokens, float survival,
                          float min_survival, Continuation& draft) {
  check_proposed(tokens, survival);
  check_draft(min_survival, draft.tokens.size());
  std::scoped_lock lock(mutex_);
  propose_after_for(find(name), tokens, survival, min_survival, draft);
}

void Index::propose_after_for(Follower& request, std::span<const Token> tokens, float survival,
                              float min_survival, Continuation& draft) const {
  draft.length = draft.predicted = 0;
  // A proposal with a token that the model does not have cannot be accepted.
  const bool is_possible = std::ranges::all_of(tokens, [&](Token token) { return is_known(token); });
  if (!request.has_room || !is_possible) return;
  const Sources sources = request.sources();
  Matcher matcher = request.matcher;
  matcher.assume(tokens, request.recent, sources);
  Pending unscored;
  vote(matcher, sources, {tokens.back(), tokens, survival}, request.tenant->model,
       request.outcomes, min_survival, draft, unscored);
}

Handle Index::handle(std::string_view name) {
  std::scoped_lock lock(mutex_);
  return find(name).handle;
}

void Index::advance(std::span<Query> queries, float min_survival) {
  for (const Query& query : queries) {
    check_tokens(query.tokens);
    check_draft(min_survival, query.draft.tokens.size());
  }
  std::scoped_lock lock(mutex_);
  for (const Query& query : queries) {
    const Handle& handle = query.request;
    const Follower* request = handle.slot < slots_.size() ? slots_[handle.slot] : nullptr;
    if (request != nullptr) request->prefetch();
  }
  proposals_.clear();
  for (Query& query : queries) proposals_.push_back({&find(query.request), &query.draft});
  ++steps_;
  for (const Proposal& each : proposals_) each.request->tenant->prefetch_model(steps_);
  for (const Proposal& each : proposals_) each.request->prefetch_extend();
  for (std::size_t i = 0; i < queries.size(); ++i) {
    extend_for(*proposals_[i].request, queries[i].tokens);
  }
  std::erase_if(proposals_, [](const Proposal& each) { return each.draft->tokens.empty(); });
  for (const Proposal& each : proposals_) each.request->prefetch_slots();
  for (const Proposal& each : proposals_) each.request->prefetch_texts();
  for (const Proposal& each : proposals_) propose_for(*each.request, min_survival, *each.draft);
}

void Index::propose_after(Handle handle, std::span<const Token> tokens, float survival,
                          float min_survival, Continuation& draft) {
  check_proposed(tokens, survival);
  check_draft(min_survival, draft.tokens.size());
  std::scoped_lock lock(mutex_);
  propose_after_for(find(handle), tokens, survival, min_survival, draft);
}

void Index::finish(std::string_view name, bool keep) {
  std::scoped_lock lock(mutex_);
  Tenant& tenant = *find(name).tenant;
  slots_[find(name).handle.slot] = nullptr;
  // It ends even if there is no memory for its answer.
  auto ended = requests_.extract(requests_.find(name));
  const Follower& request = *ended.mapped();
  std::vector<Token> answer;
  const Text& text = request.own.text();
  if (keep && request.answer != text.end()) {
    const Position from = text.contains(request.answer) ? request.answer : text.begin();
    answer.reserve(text.end() - from);
    for (Position at = from; at != text.end(); ++at) answer.push_back(text[at]);
  }
  ended = {};  // so that its memory can be used for the answer
  if (!answer.empty()) this->keep(tenant, answer);
}

void Index::keep(Tenant& tenant, std::span<const Token> tokens) {
  bool has_any = false;
  while (!tokens.empty()) {
    const auto part = tokens.first(std::min<std::size_t>(tokens.size(), kTokensPerBlock));
    if (!reserve(tenant, tenant.store, part.size() + 1)) break;
    tenant.store.append(part);
    tokens = tokens.subspan(part.size());
    has_any = true;
  }
  if (has_any) tenant.store.append(std::span(&kGap, 1));  // reserved with the last part
}

std::span<const Token> Index::with_gaps(std::span<const Token> tokens,
                                        std::vector<Token>& copy) const {
  const auto is_unknown = [this](Token token) { return !is_known(token); };
  if (std::ranges::none_of(tokens, is_unknown)) return tokens;
  copy.assign(tokens.begin(), tokens.end());
  std::ranges::replace_if(copy, is_unknown, kGap);
  return copy;
}

Index::Follower& Index::find(std::string_view name) {
  const auto found = requests_.find(name);
  if (found == requests_.end()) throw UnknownRequest("the request was not started, or has ended");
  return *found->second;
}

Index::Follower& Index::find(Handle handle) {
  Follower* request = handle.slot < slots_.size() ? slots_[handle.slot] : nullptr;
  if (request == nullptr || request->handle.number != handle.number) {
    throw UnknownRequest("the request was not started, or has ended");
  }
  return *request;
}

Index::Tenant& Index::tenant_of(std::string_view name) {
  const auto found = tenants_.find(name);
  if (found != tenants_.end()) return *found->second;
  if (tenants_.size() == kMostTenants) drop_for_new_tenant();
  // It is added first, so that the equal share is computed with it.
  const auto added =
      tenants_.emplace(name, std::make_unique<Tenant>(name, ++clock_, pool_, hash_)).first;
  Tenant& tenant = *added->second;
  if (!make_room(tenant, Tenant::kFixedBlocks) || !pool_.charge(Tenant::kFixedBlocks)) {
    tenants_.erase(added);
    throw OutOfRoom("running requests use all of the index's memory");
  }
  return tenant;
}

bool Index::reserve(const Tenant& wanting, Store& store, std::size_t tokens) {
  return make_room(wanting, store.blocks_for(tokens)) && store.reserve(tokens);
}

bool Index::make_room(const Tenant& wanting, std::size_t blocks) {
  while (!pool_.reserve(blocks)) {
    Tenant* gives = victim(wanting);
    if (gives == nullptr) return false;
    const std::size_t tokens = gives->store.text().size();
    if (gives->store.forget()) {
      evicted_tokens_ += tokens - gives->store.text().size();
    } else if (Follower* longest = longest_of(*gives)) {
      shorten(*longest);
    } else {
      evicted_tokens_ += tokens;
      drop(*gives);
    }
  }
  return true;
}

Index::Tenant* Index::victim(const Tenant& wanting) {
  const std::size_t share = pool_.capacity_blocks() / std::max<std::size_t>(tenants_.size(), 1);
  Tenant* most = nullptr;
  for (const auto& [name, tenant] : tenants_) {
    const bool is_other = tenant.get() != &wanting;
    if (is_other && tenant->used_blocks() <= share) continue;
    const bool is_more =
        most == nullptr || tenant->used_blocks() > most->used_blocks() ||
        (tenant->used_blocks() == most->used_blocks() && tenant->last_used < most->last_used);
    if (!is_more) continue;
    // Running requests of `wanting` itself are shortened by their own calls.
    const bool has_text = tenant->store.text().blocks() > 1;
    if (has_text || (is_other && (tenant->requests.empty() || longest_of(*tenant) != nullptr))) {
      most = tenant.get();
    }
  }
  return most;
}

Index::Follower* Index::longest_of(const Tenant& tenant) {
  Follower* longest = nullptr;
  for (Follower* request : tenant.requests) {
    if (!request->prediction && request->own.text().blocks() < 2) continue;
    if (longest == nullptr || request->blocks() > longest->blocks()) longest = request;
  }
  return longest;
}

bool Index::shorten(Follower& request) {
  if (request.prediction) {
    request.matcher.drop(&*request.prediction);
    request.prediction.reset();
  } else if (!request.own.forget()) {
    return false;
  }
  request.recount();
  return true;
}

void Index::drop(Tenant& tenant) {
  pool_.refund(Tenant::kFixedBlocks);
  tenants_.erase(tenants_.find(tenant.name));
}

void Index::drop_for_new_tenant() {
  Tenant* oldest = nullptr;
  for (const auto& [name, tenant] : tenants_) {
    if (!tenant->requests.empty()) continue;
    if (oldest == nullptr || tenant->last_used < oldest->last_used) oldest = tenant.get();
  }
  if (oldest == nullptr) throw OutOfRoom("the index has 1024 tenants with running requests");
  evicted_tokens_ += oldest->store.text().size();
  drop(*oldest);
}

void Index::require_idle() const {
  if (!requests_.empty()) throw BadInput("requests are running");
}

void Index::clear() {
  std::scoped_lock lock(mutex_);
  drop_all();
}

void Index::drop_all() {
  require_idle();
  while (!tenants_.empty()) drop(*tenants_.begin()->second);
}

Stats Index::stats() {
  std::scoped_lock lock(mutex_);
  std::size_t tokens = 0;
  for (const auto& [name, tenant] : tenants_) tokens += tenant->store.text().size();
  return {tokens,
          pool_.used_blocks() * kBlockBytes,
          pool_.capacity_blocks() * kBlockBytes,
          tenants_.size(),
          requests_.size(),
          evicted_tokens_};
}

std::optional<Model> Index::model_of(std::string_view name) {
  std::scoped_lock lock(mutex_);
  const auto found = tenants_.find(name);
  if (found == tenants_.end()) return std::nullopt;
  return found->second->model;
}

void Index::teach(std::string_view name, const Prior& prior) {
  check_name(name);
  if (!prior.is_sound()) throw BadInput("prior: a value is out of range");
  std::scoped_lock lock(mutex_);
  tenant_of(name).model = Model(prior);
}

}  // namespace specgate::suffix
