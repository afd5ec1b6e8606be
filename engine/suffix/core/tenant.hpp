// The state of a tenant and of a running request.
#pragma once

#include <vector>

#include "index.hpp"
#include "lines.hpp"
#include "prior.hpp"

namespace specgate::suffix {

constexpr std::size_t in_blocks(std::size_t bytes) {
  return (bytes + kBlockBytes - 1) / kBlockBytes;
}

struct Index::Tenant {
  static constexpr std::size_t kFixedBlocks = in_blocks(sizeof(Model));

  Tenant(std::string_view its_name, std::uint64_t its_number, BlockPool& pool,
         const ContextHash& hash)
      : name(its_name), number(its_number), store(pool, hash) {}

  std::size_t used_blocks() const { return kFixedBlocks + store.blocks() + request_blocks; }

  // With at least this many running requests the whole model (850 cache lines) is prefetched. Each
  // request reads some 40 of them.
  static constexpr std::size_t kManyRequests = 8;

  // Prefetches the model, once per step.
  void prefetch_model(std::uint64_t step) {
    if (requests.size() < kManyRequests || prefetched == step) return;
    prefetched = step;
    prefetch_lines(&model, &model + 1);
  }

  std::string name;
  std::uint64_t number;  // unique, also among tenants that were dropped
  Store store;
  Model model{kPrior};
  std::vector<Follower*> requests;  // running
  std::size_t request_blocks = 0;  // of its running requests
  std::uint64_t last_used = 0;
  std::uint64_t prefetched = 0;  // number of the step in which the model was prefetched
};

// The index's side of a running request: what it wrote, and where that was found before.
struct Index::Follower {
  static constexpr std::size_t kFixedBlocks = 1;  // for its state, without its texts

  Follower(Tenant& its_tenant, BlockPool& pool, const ContextHash& hash)
      : tenant(&its_tenant), own(pool, hash) {
    tenant->requests.push_back(this);
    recount();
  }
  ~Follower() {
    tenant->request_blocks -= counted;
    std::erase(tenant->requests, this);
  }
  Follower(const Follower&) = delete;
  Follower& operator=(const Follower&) = delete;

  Sources sources() {
    return {&own, prediction ? &*prediction : nullptr,
            tenant->store.text().size() > 0 ? &tenant->store : nullptr};
  }
  std::size_t blocks() const {
    return kFixedBlocks + own.blocks() + (prediction ? prediction->blocks() : 0);
  }
  // Adds what changed to the blocks of its tenant.
  void recount() {
    tenant->request_blocks += blocks() - counted;
    counted = blocks();
  }

  // After a model step none of this is in the caches, and each of these calls needs what the one
  // before it has prefetched. Making each call for all requests of a step lets the misses overlap.
  void prefetch() const { prefetch_lines(this, &pending.choices[1]); }
  void prefetch_extend() const {
    own.prefetch_append();
    matcher.prefetch_votes();
    if (pending.scored > 0) tenant->model.survival.prefetch(pending.choices[0].taken.features);
  }
  void prefetch_slots() { Matcher::prefetch_slots(recent, sources()); }
  void prefetch_texts() { Matcher::prefetch_texts(recent, sources()); }

  Tenant* tenant;
  Handle handle;
  Store own;
  std::optional<Store> prediction;
  Recent recent;
  Matcher matcher;
  RecentOutcomes outcomes;
  Position answer = 0;    // where its answer begins in `own`
  bool has_room = true;   // false: there is no memory for its text, and it gets no drafts
  std::size_t counted = 0;  // of its blocks, in those of its tenant
  Pending pending;
};

}  // namespace specgate::suffix
