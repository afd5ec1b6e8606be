// The state of a running request, and its sequence in the current step.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "drafts.hpp"
#include "forward.hpp"
#include "index.hpp"
#include "lines.hpp"

namespace specgate::drafting {

// What a request asks for, and its limits.
struct RequestOptions {
  std::size_t most;   // longest draft, in tokens
  std::int64_t left;  // tokens that it may still get, including those of its first step
  std::size_t known;  // tokens that it has, without those
  bool suffix;        // whether this source may draft for it
  bool head;
  bool native;
  std::optional<double> price;  // fixed price of its drafts; without one the gate's
  double temperature;           // of its sampling; 0: greedy
};

// A draft whose step is not known yet.
struct Chosen {
  std::vector<Token> tokens;  // kOnDevice: not known on the CPU
  Source on_device = kNone;   // who made such tokens
  // What the index stated of them; empty if they are not all its own, or not chosen by the gate.
  std::vector<double> stated;

  void clear() {
    tokens.clear();
    on_device = kNone;
    stated.clear();
  }
};

inline constexpr Token kOnDevice = -1;

struct Request {
  std::size_t most;
  std::int64_t left;
  std::size_t tokens;  // of its prompt and its answer so far
  // Its drafts in steps that are not known yet, the oldest first. There are two where a step was
  // launched before the tokens of the last one were known.
  std::array<Chosen, 2> chosen;
  std::size_t unknown_steps = 0;
  std::optional<double> price;
  bool wants_suffix;
  bool in_source = false;   // whether the suffix index knows it
  suffix::Handle handle;    // of the suffix index, once it was asked
  std::optional<policy::Proposals> head;    // of the draft head
  std::optional<policy::Proposals> native;  // of vLLM's own drafter
  std::string name;

  // Returns the proposals of the head or of vLLM's drafter; null if the request does not use it.
  policy::Proposals* proposals(Source drafter) {
    if (drafter == kHead && head) return &*head;
    return drafter == kNative && native ? &*native : nullptr;
  }

  // Returns an empty draft for the step after those that are not known yet.
  Chosen& choose() {
    if (unknown_steps == 2) settle_oldest();
    Chosen& next = chosen[unknown_steps++ % 2];
    next.clear();
    return next;
  }
  // The oldest step is known now: moves the younger one forward.
  void settle_oldest() {
    std::swap(chosen[0], chosen[1]);
    --unknown_steps;
  }

  void prefetch() const { suffix::prefetch_lines(this, this + 1); }
};

// What a step that is in flight verifies of a sequence's draft. No value: no step is in flight.
// kAbsent: the step does not have the sequence.
using InFlight = std::optional<std::int64_t>;
inline constexpr std::int64_t kAbsent = -1;

// A request in the step that is being drafted for.
struct Sequence {
  Request* request;
  std::size_t at;                  // its position in the step
  std::span<const Token> sampled;  // its new tokens, at least one
  std::size_t verified;            // draft tokens that were verified for them
  InFlight in_flight;
  std::size_t room;                // most tokens of its draft
  Draft best;                      // the best draft proposed so far in this step
  bool is_weighed = false;         // whether its survival was corrected by the head's proposal

  // Returns the most tokens that the index may draft for it.
  std::size_t suffix_room() const { return request->wants_suffix ? room : 0; }
  // Returns the most tokens that a step in flight yields; 0 if there is none.
  std::size_t most_yield() const {
    return in_flight ? static_cast<std::size_t>(*in_flight + 1) : 0;
  }
};

}  // namespace specgate::drafting
