// A drafter that needs a forward pass: when to run it, and what is known of its proposals.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

#include "proposal_value.hpp"

namespace specgate::policy {

class ForwardDrafter {
 public:
  // `most`: tokens of a proposal at most; 0: there is no such drafter. `calibrated`: it states a
  // probability for each token. `probe_steps`: when it does not pay, it is tried every so many
  // steps; after four failed tries at half that rate, after four more at a third.
  ForwardDrafter(std::size_t most, bool calibrated, int probe_steps);

  std::size_t most() const { return most_; }

  // Returns the value of its proposals for a new request with this sampling temperature. Drafts
  // match greedy text more often than sampled text, so requests share what they learn only with
  // those of similar temperature.
  ProposalValue proposal_value(double temperature) const;

  // Returns whether to run it in this step. Call once per step.
  bool runs(bool pays);

  // Returns for which of `sequences` to run it in a try: a few, rotating, in ascending order.
  std::vector<std::size_t> trial(std::size_t sequences) const;

 private:
  std::size_t most_;
  int probe_steps_;
  int idle_ = 0;   // steps since it paid or was tried
  int tries_ = 0;  // since it last paid
  std::array<std::shared_ptr<DrafterHistory>, 3> history_;  // by temperature: 0, low, high
};

}  // namespace specgate::policy
