// The running requests, and the parts of a drafting step. module.cpp calls them in order.
//
// After a model step the CPU caches are cold, so the cost of a sequence is the memory that it
// touches. The state of a request is one object, and no Python objects are read except the lists
// passed in and out (docs/adr/0014).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "drafts.hpp"
#include "forward.hpp"
#include "gate.hpp"
#include "index.hpp"
#include "index_source.hpp"
#include "request.hpp"

namespace specgate::drafting {

// What was decided about a step; step.py defines each, and two more.
enum Decision : std::uint8_t { kDrafted, kPricedOut, kUnknown, kLimited };

class Batch {
 public:
  // `index`: null if there is none; it must outlive the batch. `native` and `head` propose 0 tokens
  // if there is none.
  Batch(policy::Gate& gate, suffix::Index* index, policy::ForwardDrafter native,
        policy::ForwardDrafter head);
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  // Returns a running request, or null.
  Request* find(std::string_view name);
  Request& begin(std::string_view name, const RequestOptions& options);
  void end(Request& request) { running_.erase(running_.find(request.name)); }
  template <class Each>
  void for_each(Each each) const {
    for (const auto& [name, request] : running_) each(*request);
  }

  // Starts a step without sequences.
  void clear();
  // Adds a sequence: `request` got at least one token, after `verified` tokens of its draft were
  // verified. The tokens are copied. If a step is in flight, drafts are made for the one behind it.
  void add(Request& request, std::size_t at, std::span<const Token> sampled, std::size_t verified,
           InFlight in_flight);
  // Tells the drafters what was generated, and the gate how the last drafts fared and what the next
  // step is like. The sequences of this step, and their context tokens, are added to `load`.
  void learn(policy::Load load);
  // Tells the index what was generated, and asks it for drafts. Returns for how many sequences.
  std::size_t ask();
  // Returns the price at which the current drafts are cut. Requests with a price of their own do not
  // take part.
  double settle();
  // Takes the proposal of vLLM's own drafter if it is worth more than the sequence's draft.
  void offer_native(Sequence& sequence, std::span<const Token> tokens, double price);
  // Returns the sequences for which to run the head, in step order: those with the largest expected
  // gains, as many as gain more than the pass costs; or else all that it has better drafts for, if
  // these pay together. If there are none, now and then a few others.
  std::vector<Sequence*> head_sequences(double price);
  // Takes the head's proposal if it is worth more than the sequence's draft. If that draft came from
  // the index, first corrects the survival of both.
  void offer_head(Sequence& sequence, std::span<const Token> tokens, std::span<const double> confidence,
                  double price);
  // Offers what the head or vLLM's own drafter makes on the device in the step in flight, `most`
  // tokens for each sequence. They are not known here, so their survival is the usual one.
  void offer_on_device(Source drafter, std::size_t most, double price);
  // Cuts every draft at the price and calls `each` for those with tokens left. These count as being
  // verified. Returns what was decided about the step.
  template <class Each>
  Decision cut(double price, Each each) {
    bool proposed = false;
    bool drafted = false;
    for (Sequence& sequence : sequences_) {
      if (!sequence.best) continue;
      proposed = true;
      if (const std::size_t length = cut(sequence, price)) {
        drafted = true;
        each(sequence, length);
      }
    }
    if (proposed) price_ = price;
    return decide(proposed, drafted);
  }

  // Returns the price of the latest step that had drafts to cut.
  double price() const { return price_; }

  // Tokens in the KV caches of all running requests.
  std::size_t context_tokens() const { return context_tokens_; }

  std::span<Sequence> sequences() { return sequences_; }
  const Drafts& drafts() const { return drafts_; }

  // Returns how many tokens vLLM's own drafter is to propose next. Call once per step.
  std::size_t native_tokens();
  // Returns how many tokens the head is to make on the device in the next step that is launched
  // ahead: for all sequences, or 0.
  std::size_t head_tokens() const;

 private:
  std::size_t cut(Sequence& sequence, double price);
  Decision decide(bool proposed, bool drafted) const;
  void prefer(Sequence& sequence, const Draft& draft, double price);
  // Returns the head's draft. If its last token is worth the price, the index continues it.
  Draft head_draft(const Sequence& sequence, std::span<const Token> tokens,
                   std::span<const double> survival, double price);
  // Returns what the step would be if the head ran for all sequences and proposed as it did last:
  // what it brings is worth less if it fills the step up to a jump of the cost. `better`: gets the
  // sequences whose draft would then be the head's.
  policy::Offer offer_of_head(double price, std::vector<Sequence*>& better);
  // Prefetches the state of all sequences.
  void fetch_ahead();
  // Tells the gate how the drafts of the last step fared.
  void account();

  policy::Gate& gate_;
  policy::ForwardDrafter native_;
  policy::ForwardDrafter head_;
  std::optional<IndexSource> source_;
  std::unordered_map<std::string, std::unique_ptr<Request>> running_;
  double price_ = 0.0;

  // State of one step, kept to reuse its memory.
  std::vector<Sequence> sequences_;
  std::vector<Token> sampled_;
  std::vector<double> pool_;
  Drafts drafts_;
  std::size_t context_tokens_ = 0;
  double floor_ = 0.0;  // least survival that can be worth its price
};

}  // namespace specgate::drafting
