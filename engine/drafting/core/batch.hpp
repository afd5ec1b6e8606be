// The running requests, and what each row of a step drafts: all of a step but its order, which is
// the module's.
//
// After a model step all caches are cold, so what a row costs is what it touches. What is
// remembered of a request is one piece of memory, and no Python object is looked at but the lists
// that come in and go out (docs/adr/0014).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "drafts.hpp"
#include "forward.hpp"
#include "gate.hpp"
#include "regime.hpp"
#include "request.hpp"
#include "source.hpp"

namespace specgate::drafting {

// What a step came to; `counters.py` says what each means, and has those beside.
enum Decision : std::uint8_t { kDrafted, kProbed, kPricedOut, kUnknown, kLimited };

class Batch {
 public:
  // `native` and `head` propose 0 tokens where there is none.
  Batch(policy::Gate& gate, policy::ForwardDrafter native, policy::ForwardDrafter head);

  // Requests that something is remembered of; null where nothing is.
  Request* find(std::string_view name);
  Request& begin(std::string_view name, const Wishes& wishes);
  void end(Request& request) { running_.erase(running_.find(request.name)); }
  template <class Each>
  void for_each(Each each) const {
    for (const auto& [name, request] : running_) each(*request);
  }

  // Who is asked from now on; null for nobody.
  void ask_through(RowSource* source) { source_ = source; }

  // Begin a step without rows.
  void clear();
  // A row of it: `request` got tokens, at least one; they are copied, and with the row from
  // `learn` on.
  void add(Request& request, std::size_t at, std::span<const Token> sampled);
  // Tell all but the source what was generated, and the gate what the last drafts brought and what
  // the step to come is like; its rows are those of this one, and their tokens are yet to be added.
  void learn(policy::Load load);
  // Tell the source, and ask it for the rows that may have a draft.
  void ask();
  // The price at which the drafts that there are now are to be cut, of rows without one of their
  // own.
  double settle();
  // Take what vLLM's own drafter proposes for a row where it is worth more at that price.
  void offer_native(Row& row, std::span<const Token> tokens, double price);
  // The rows that the head is to run for: those to which it is likely to bring most, as many as
  // bring more than the pass costs; where there are none, now and then others. In their order.
  std::vector<Row*> head_rows(double price);
  // Take what the head proposes for a row where it is worth more. Of the source's draft, if it has
  // one, more or less is believed from now on.
  void offer_head(Row& row, std::span<const Token> tokens, std::span<const double> confidence,
                  double price);
  // How much of its draft each row gets at a price, calling `each` with those that have any, and
  // what that makes of the step. It is remembered as being verified.
  template <class Each>
  Decision cut(double price, Each each) {
    bool proposed = false;
    bool drafted = false;
    for (Row& row : rows_) {
      if (!row.best) continue;
      proposed = true;
      if (const std::size_t length = cut(row, price)) {
        drafted = true;
        each(row, length);
      }
    }
    if (proposed) price_ = price;
    return judge(proposed, drafted);
  }

  // The price of the latest step that had drafts to cut.
  double price() const { return price_; }
  // Whether steps of late drafted by and large, and whether the latest one has changed that.
  bool is_open() const { return regime_.is_open(); }
  bool has_turned() const { return has_turned_; }

  // Of the requests that the load of the step was of, and of its rows.
  std::size_t context_tokens() const { return context_tokens_; }

  std::span<Row> rows() { return rows_; }
  const Drafts& drafts() const { return drafts_; }

  // How many tokens vLLM's own drafter is to propose in the next step; asked once a step.
  std::size_t native_tokens();

 private:
  std::size_t cut(Row& row, double price);
  Decision judge(bool proposed, bool drafted);
  void prefer(Row& row, const Draft& draft, double price);
  // What the head is likely to bring a row, in tokens above their cost.
  double gain_of_head(const Row& row, double price) const;
  // The head's tokens; where they end, or are no longer sure, the source goes on, if at that price
  // anybody would buy what it says.
  Draft head_draft(const Row& row, std::span<const Token> tokens,
                   std::span<const double> survival, double price);
  // Bring into the cache what is remembered of the rows, of all at once.
  void fetch_ahead();
  // Tell the gate what the last step verified, and of whom.
  void account();

  policy::Gate& gate_;
  policy::ForwardDrafter native_;
  policy::ForwardDrafter head_;
  RowSource* source_ = nullptr;
  std::unordered_map<std::string, std::unique_ptr<Request>> running_;
  policy::Regime regime_;
  bool has_turned_ = false;
  double price_ = 0.0;

  // Of the step; kept, so that the next one finds its memory.
  std::vector<Row> rows_;
  std::vector<Token> sampled_;
  std::vector<double> pool_;
  Drafts drafts_;
  std::size_t context_tokens_ = 0;
  double floor_ = 0.0;              // survival below which nothing is of use
  double suffix_floor_ = 0.0;       // likewise of the source, and of the head
  double head_floor_ = 0.0;
};

}  // namespace specgate::drafting
