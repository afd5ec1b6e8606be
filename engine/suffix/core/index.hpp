// The index: requests, tenants, and who may use how much memory.
//
// Memory is blocks of one pool. When none is left, the tenant that uses most gives up its oldest
// answers, then text of its running requests; as it uses at least the average, nobody falls below
// an equal share for another's sake.
// A request's own text (prompt, prediction, answer so far) goes when the request ends; its answer
// may stay, for its tenant alone. One lock guards all of it: a call takes microseconds.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "block_pool.hpp"
#include "calibration.hpp"
#include "draft.hpp"
#include "matcher.hpp"
#include "recent.hpp"
#include "store.hpp"

namespace specgate::suffix {

struct Stats {
  std::size_t tokens;          // of finished answers, all tenants
  std::size_t bytes;           // in use, requests' own text included
  std::size_t capacity_bytes;
  std::size_t tenants;
  std::size_t requests;        // running
  std::uint64_t evicted_tokens;
};

// Where a running request is found without its name; good until it ends.
struct Ticket {
  std::uint32_t place = 0;
  std::uint64_t number = 0;  // never given twice; 0 is nobody's
};

// A row of a step: what was generated for a request, and room for its next draft; none is made
// where `draft` has no room.
struct Ask {
  Ticket request;
  std::span<const Token> tokens;
  Draft draft;
};

class Index {
 public:
  // `capacity_bytes` must hold kLeastBlocks to kMostBlocks blocks.
  Index(std::size_t capacity_bytes, std::uint64_t salt);
  ~Index();

  // `temperature`: at which its text is sampled, from 0.
  void start(std::string_view request, std::string_view tenant, std::span<const Token> prompt,
             float temperature);
  void extend(std::string_view request, std::span<const Token> tokens);
  void predict(std::string_view request, std::span<const Token> tokens);
  // Without a `least_survival` a draft ends where its tokens stop to pay for this tenant.
  void propose(std::string_view request, std::optional<float> least_survival, Draft& draft);
  // All or none: an unknown request among them changes nothing.
  void propose_many(std::span<const std::string_view> requests,
                    std::optional<float> least_survival, std::span<Draft> drafts);
  // Behind `tokens`, which another drafter proposes and which survive with probability `survival`,
  // as if they had been generated. Changes nothing.
  void propose_after(std::string_view request, std::span<const Token> tokens, float survival,
                     std::optional<float> least_survival, Draft& draft);

  // The same for callers that ask in every step: without a look-up by name.
  Ticket ticket(std::string_view request);
  // `extend` each row, then `propose` for each. All or none, as `propose_many`.
  void advance(std::span<Ask> rows, std::optional<float> least_survival);
  void propose_after(Ticket request, std::span<const Token> tokens, float survival,
                     std::optional<float> least_survival, Draft& draft);

  void observe(std::string_view request, int accepted);
  void finish(std::string_view request, bool keep);

  void save(const std::string& path);
  void load(const std::string& path);  // needs an index without running requests
  void clear();                        // the same

  Stats stats();
  // Prior-shaped state of a tenant's calibration, for the script that fits the prior.
  std::optional<Model> model_of(std::string_view tenant);

  static constexpr std::size_t kLeastBlocks = 64;
  // 64 GiB: with its tables no text in it outgrows the numbers that positions are made of.
  static constexpr std::size_t kMostBlocks = std::size_t{1} << 22;

 private:
  struct Tenant;
  struct Request;
  struct NameHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view name) const {
      return std::hash<std::string_view>{}(name);
    }
  };
  template <class T>
  using Named = std::unordered_map<std::string, T, NameHash, std::equal_to<>>;
  struct GiveBack {
    BlockPool* pool;
    void operator()(Request* request) const;
  };
  struct Asked {
    Request* request;
    Draft* draft;
  };
  using RunningRequest = std::unique_ptr<Request, GiveBack>;

  Request& find(std::string_view request);
  Request& find(Ticket request);
  void extend_for(Request& request, std::span<const Token> tokens);
  Tenant& tenant_of(std::string_view name);
  void propose_for_asked(std::optional<float> least_survival);
  void propose_for(Request& request, std::optional<float> least_survival, Draft& draft);
  static void propose_after_for(Request& request, std::span<const Token> tokens, float survival,
                                std::optional<float> least_survival, Draft& draft);
  // The last draft against what came: learn from it.
  static void score(Request& request, std::span<const Token> tokens);
  void append_own(Request& request, std::span<const Token> tokens);
  void keep_answer(Request& request);
  void keep(Tenant& tenant, std::span<const Token> tokens);
  // Evict until so many blocks are free; false when that cannot be done fairly.
  bool make_room(const Tenant& wanting, std::size_t blocks);
  Tenant* victim(const Tenant& wanting);
  // The tenant's running request with most text to give up, or null.
  Request* longest_of(const Tenant& tenant);
  // Forget its prediction or, without one, its oldest tokens; false when there is nothing left.
  bool shorten(Request& request);
  void drop(Tenant& tenant);
  void drop_all();
  void require_idle() const;

  std::mutex mutex_;
  BlockPool pool_;
  ContextHash hash_;
  Named<std::unique_ptr<Tenant>> tenants_;
  Named<RunningRequest> requests_;
  std::vector<Request*> places_;  // by ticket; null where its request has ended
  std::vector<Asked> asked_;      // the rows of a call
  std::uint64_t clock_ = 0;  // counts requests: who was there last
  std::uint64_t steps_ = 0;  // that `advance` was called for
  std::uint64_t evicted_tokens_ = 0;
};

}  // namespace specgate::suffix
