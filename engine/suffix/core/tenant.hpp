// What an index keeps for a tenant, and for a running request of it.
#pragma once

#include "index.hpp"
#include "lines.hpp"

namespace specgate::suffix {

constexpr std::size_t in_blocks(std::size_t bytes) {
  return (bytes + kBlockBytes - 1) / kBlockBytes;
}

struct Index::Tenant {
  static constexpr std::size_t kFixedBlocks = in_blocks(sizeof(Model));

  Tenant(std::string_view its_name, BlockPool& pool, const ContextHash& hash)
      : name(its_name), store(pool, hash) {}

  std::size_t used_blocks() const { return kFixedBlocks + store.blocks() + request_blocks; }

  // From so many requests on all that was learnt of a tenant is fetched, 850 lines; each row looks
  // at some 40 of them.
  static constexpr std::size_t kManyRequests = 8;

  // Bring that into the cache, once a step.
  void prefetch_model(std::uint64_t step) {
    if (requests < kManyRequests || prefetched == step) return;
    prefetched = step;
    prefetch_lines(&model, &model + 1);
  }

  std::string name;
  Store store;
  Model model;
  std::size_t requests = 0;
  std::size_t request_blocks = 0;  // of its running requests
  std::uint64_t last_used = 0;
  std::uint64_t prefetched = 0;  // in which step
};

struct Index::Request {
  Request(Tenant& its_tenant, BlockPool& pool, const ContextHash& hash)
      : tenant(&its_tenant), own(pool, hash) {}
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;

  Sources sources() {
    return {&own, prediction ? &*prediction : nullptr,
            tenant->store.text().size() > 0 ? &tenant->store : nullptr};
  }
  std::size_t blocks() const {
    return own.blocks() + (prediction ? prediction->blocks() : 0);
  }

  // After a model's step all of this is far away, and each of these calls waits for what the one
  // before it has brought: made for all rows in turn, they wait together.
  void prefetch() const { prefetch_lines(this, &pending.choices[1]); }
  void prefetch_extend() const {
    own.prefetch_append();
    matcher.prefetch_votes();
    if (pending.scored > 0) tenant->model.survival.prefetch(pending.choices[0].taken.features);
  }
  void prefetch_slots() { Matcher::prefetch_slots(recent, sources()); }
  void prefetch_texts() { Matcher::prefetch_texts(recent, sources()); }

  Tenant* tenant;
  Ticket ticket;
  Store own;
  std::optional<Store> prediction;
  Recent recent;
  Matcher matcher;
  Fortune fortune;
  Position answer = 0;    // where it begins in `own`
  bool has_room = true;   // false: no memory for its text; it gets no drafts
  Pending pending;
};

}  // namespace specgate::suffix
