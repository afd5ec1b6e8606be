// The state of a running request, and its sequence in the current step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
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

struct Request {
  std::size_t most;
  std::int64_t left;
  std::size_t tokens;       // of its prompt and its answer so far
  std::size_t drafted = 0;  // tokens of its last draft
  // What the index stated of them; empty if they are not all its own, or not chosen by the gate.
  std::vector<double> stated;
  std::optional<double> price;
  bool wants_suffix;
  bool in_source = false;   // whether the suffix index knows it
  suffix::Handle handle;    // of the suffix index, once it was asked
  std::optional<policy::Proposals> head;    // of the draft head
  std::optional<policy::Proposals> native;  // of vLLM's own drafter
  std::string name;

  void prefetch() const { suffix::prefetch_lines(this, this + 1); }
};

// A request in the step that is being drafted for.
struct Sequence {
  Request* request;
  std::size_t at;                  // its position in the step
  std::span<const Token> sampled;  // its new tokens, at least one
  std::size_t verified;            // draft tokens that were verified for them
  std::size_t room;                // most tokens of its draft
  Draft best;                      // the best draft proposed so far in this step
  bool is_weighed = false;         // whether its survival was corrected by the head's proposal

  // Returns the most tokens that the index may draft for it.
  std::size_t suffix_room() const { return request->wants_suffix ? room : 0; }
};

}  // namespace specgate::drafting
