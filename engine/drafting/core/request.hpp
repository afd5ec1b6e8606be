// The state of a running request, and its sequence in the current step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "drafts.hpp"
#include "proposal_value.hpp"
#include "index.hpp"
#include "lines.hpp"
#include "step_rate.hpp"

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
  std::size_t drafted = 0;  // tokens that are being verified
  double expected = 0.0;    // the sum of their survivals
  Origin origin;            // who proposed them
  std::optional<double> price;
  policy::StepRate rate;
  double weight = 1.0;      // of its tokens in the current step (StepRate)
  bool wants_suffix;
  bool in_source = false;   // whether the suffix index knows it
  suffix::Handle handle;    // of the suffix index, once it was asked
  std::optional<policy::ProposalValue> head;    // of the draft head
  std::optional<policy::ProposalValue> native;  // of vLLM's own drafter
  std::string name;

  void prefetch() const { suffix::prefetch_lines(this, this + 1); }
};

// A request in the step that is being drafted for.
struct Sequence {
  Request* request;
  std::size_t at;                  // its position in the step
  std::span<const Token> sampled;  // its new tokens, at least one
  std::size_t room;                // most tokens of its draft
  Draft best;                      // the best draft proposed so far in this step

  // Returns the most tokens that the index may draft for it.
  std::size_t suffix_room() const { return request->wants_suffix ? room : 0; }
};

}  // namespace specgate::drafting
