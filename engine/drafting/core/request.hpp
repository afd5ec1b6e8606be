// What drafting remembers of a running request, and its row in the present step.
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

// What a request asks for, and how far it may go.
struct Wishes {
  std::size_t most;   // tokens of a draft
  std::int64_t left;  // tokens that it may still get, those of its first step included
  std::size_t known;  // tokens that it has, those not included
  bool suffix;        // whether that source may draft for it
  bool head;
  bool native;
  std::optional<double> price;  // at which its drafts are cut, whatever the gate says
  double temperature;           // of its sampling; 0: greedy
};

struct Request {
  std::size_t most;
  std::int64_t left;
  std::size_t tokens;       // its prompt, and what it wrote
  std::size_t drafted = 0;  // tokens that are being verified
  double expected = 0.0;    // the sum of their survival
  Origin origin;            // whose they are
  std::optional<double> price;
  policy::StepRate rate;
  double count = 1.0;       // what one of its tokens counts in the present step
  bool wants_suffix;
  bool in_source = false;   // whether the suffix source knows it
  suffix::Handle handle;    // its place in the suffix index, once that was asked for it
  std::optional<policy::ProposalValue> head;    // the draft head in its eyes
  std::optional<policy::ProposalValue> native;  // likewise vLLM's own drafter
  std::string name;

  void prefetch() const { suffix::prefetch_lines(this, this + 1); }
};

// A request in the step that is being drafted for.
struct Row {
  Request* request;
  std::size_t at;                  // its place among the rows of the step
  std::span<const Token> sampled;  // its new tokens, at least one
  std::size_t room;                // most tokens of its draft; 0: it gets none
  Draft best;                      // the one that is worth most, of those proposed in this step

  // Most tokens that the suffix source may draft for it.
  std::size_t suffix_room() const { return request->wants_suffix ? room : 0; }
};

}  // namespace specgate::drafting
