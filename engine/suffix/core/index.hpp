// The suffix index: requests, tenants, and how they share the memory.
//
// All memory comes from one block pool. When it is exhausted, the tenant that uses the most memory
// loses its oldest answers, then text of its running requests. That tenant uses at least the
// average, so no tenant is pushed below an equal share by another. A request's own text (prompt,
// prediction, answer so far) is dropped when the request ends; its answer may be kept for its tenant
// only. If the system has no memory, it is as if the pool were exhausted.
//
// Ids outside of the vocabulary (of images, for example) are stored as gaps: they keep their
// position, no context spans them, and no draft contains them.
//
// One mutex guards everything: a call takes microseconds.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "block_pool.hpp"
#include "calibration.hpp"
#include "draft.hpp"
#include "matcher.hpp"
#include "recent.hpp"
#include "store.hpp"

namespace specgate::suffix {

class SnapshotReader;

struct Stats {
  std::size_t tokens;          // of finished answers of all tenants
  std::size_t bytes;           // in use, including the text of running requests
  std::size_t capacity_bytes;
  std::size_t tenants;
  std::size_t requests;        // running
  std::uint64_t evicted_tokens;
};

// Finds a running request without a lookup by name. Valid until the request ends.
struct Handle {
  std::uint32_t slot = 0;
  std::uint64_t number = 0;  // unique; 0 belongs to no request
};

// One request of a step: the tokens that were generated for it, and memory for its next draft. If
// the spans of `draft` are empty, no draft is made.
struct Query {
  Handle request;
  std::span<const Token> tokens;
  Continuation draft;
};

// Answers that were loaded, by hash, so that other files with the same ones add nothing.
class Loaded {
 private:
  friend class Index;
  using Hashes = std::unordered_set<std::uint64_t>;

  static std::uint64_t hash(std::string_view tenant, std::span<const Token> answer);

  Hashes seen_;
};

class Index {
 public:
  // See engine/suffix/index.py for what each call does. `capacity_bytes` must be the size of
  // kLeastBlocks to kMostBlocks blocks, `vocabulary` from 1 to kMostTokens.
  Index(std::size_t capacity_bytes, std::uint64_t vocabulary, std::uint64_t salt);
  ~Index();

  void start(std::string_view request, std::string_view tenant, std::span<const Token> prompt,
             float temperature);
  void extend(std::string_view request, std::span<const Token> tokens);
  void predict(std::string_view request, std::span<const Token> tokens);
  void propose(std::string_view request, float min_survival, Continuation& draft);
  // Drafts after `tokens`, which another drafter proposed and which are all accepted with
  // probability `survival`, as if they had been generated. Changes nothing.
  void propose_after(std::string_view request, std::span<const Token> tokens, float survival,
                     float min_survival, Continuation& draft);

  // The same for callers that ask in every step, without lookups by name.
  Handle handle(std::string_view request);
  // Extends all requests, then drafts for each. An unknown request changes nothing for any.
  void advance(std::span<Query> queries, float min_survival);
  void propose_after(Handle request, std::span<const Token> tokens, float survival,
                     float min_survival, Continuation& draft);

  void finish(std::string_view request, bool keep);

  // `identity`: of the model, at most 4096 bytes. A file of another one, or with another
  // vocabulary, is not loaded.
  void save(const std::string& path, std::string_view identity);
  // Adds the answers of a file that are not in `loaded`, as far as there is room, and remembers them
  // there, those without room as well. After an error it has those that were added.
  void load(const std::string& path, std::string_view identity, Loaded& loaded);
  void clear();  // no request may be running

  Stats stats();
  // Return a copy of a tenant's model, and replace it by one that starts from `prior`. For the
  // script that fits the prior, and for tests of another one.
  std::optional<Model> model_of(std::string_view tenant);
  void teach(std::string_view tenant, const Prior& prior);

  static constexpr std::size_t kLeastBlocks = 64;
  // 64 GiB: a text that fits in it, with its tables, cannot exhaust the 32-bit positions.
  static constexpr std::size_t kMostBlocks = std::size_t{1} << 22;
  static constexpr std::uint64_t kMostTokens = std::uint64_t{1} << 31;  // of a vocabulary
  // Eviction looks at every tenant and running request, so their number bounds its time.
  static constexpr std::size_t kMostTenants = 1024;
  static constexpr std::size_t kLongestName = 1024;  // bytes; names lie outside of the pool

 private:
  struct Tenant;
  struct Follower;
  struct Copying;
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
    void operator()(Follower* request) const;
  };
  struct Proposal {
    Follower* request;
    Continuation* draft;
  };
  using OwnedFollower = std::unique_ptr<Follower, GiveBack>;

  Follower& find(std::string_view request);
  Follower& find(Handle request);
  void extend_for(Follower& request, std::span<const Token> tokens);
  Tenant& tenant_of(std::string_view name);
  static void propose_for(Follower& request, float min_survival, Continuation& draft);
  void propose_after_for(Follower& request, std::span<const Token> tokens, float survival,
                         float min_survival, Continuation& draft) const;
  // Compares the last draft with the tokens that came, and learns from that.
  static void score(Follower& request, std::span<const Token> tokens);
  void append_own(Follower& request, std::span<const Token> tokens);
  void keep(Tenant& tenant, std::span<const Token> tokens);
  bool is_known(Token token) const { return static_cast<std::uint32_t>(token) < vocabulary_; }
  // Returns the tokens with a gap for each unknown one. `copy` is used only if there are any.
  std::span<const Token> with_gaps(std::span<const Token> tokens, std::vector<Token>& copy) const;
  // Makes sure that `tokens` tokens can be appended to the store. Returns false if there is no room.
  bool reserve(const Tenant& wanting, Store& store, std::size_t tokens);
  // Evicts until `blocks` blocks are free. Returns false if that would be unfair to other tenants.
  bool make_room(const Tenant& wanting, std::size_t blocks);
  Tenant* victim(const Tenant& wanting);
  // Returns the tenant's running request with the most text that can be evicted, or null.
  static Follower* longest_of(const Tenant& tenant);
  // Drops the request's prediction or, without one, its oldest tokens. Returns false if nothing is
  // left to drop.
  bool shorten(Follower& request);
  void drop(Tenant& tenant);
  void drop_for_new_tenant();
  void drop_all();
  void require_idle() const;

  Copying begin_copy();
  void copy_piece(Copying& copying, std::vector<char>& piece);
  // Copies a part of the text. Returns false if nothing is left to copy.
  static bool copy_text(const Text& text, Copying& copying, std::vector<char>& piece);
  void require_same(SnapshotReader& reader, std::string_view identity) const;
  // Calls `begin` with each tenant's name and model, and after it `add` with each part of its text.
  template <class Begin, class Add>
  void read_file(const std::string& path, std::string_view identity, const Begin& begin,
                 const Add& add) const;
  void add_answer(const std::string& tenant, std::span<const Token> tokens);

  std::mutex saving_;  // held during a save, so that there is one at a time
  std::mutex mutex_;
  const std::uint64_t vocabulary_;
  BlockPool pool_;
  ContextHash hash_;
  Named<std::unique_ptr<Tenant>> tenants_;
  Named<OwnedFollower> requests_;
  std::vector<Follower*> slots_;     // by handle; null where the request has ended
  std::vector<Proposal> proposals_;  // of one call of `advance`; kept for its memory
  std::vector<Token> replaced_;      // for `with_gaps`, likewise
  std::uint64_t clock_ = 0;          // counts started requests and tenants
  std::uint64_t steps_ = 0;          // counts calls of `advance`
  std::uint64_t evicted_tokens_ = 0;
};

}  // namespace specgate::suffix
