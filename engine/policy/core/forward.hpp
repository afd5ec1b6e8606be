// A drafter that costs a forward pass, over all requests: whether it is worth its time, and what it
// has shown.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

#include "guesser.hpp"

namespace specgate::policy {

class ForwardDrafter {
 public:
  // Proposes up to `most` tokens, 0 where there is none; `calibrated`: and says how sure it is of
  // them. Where it is not worth it, it is tried every `probe_steps` steps: it may have become so;
  // after four tries in vain every second time, and after four more every third.
  ForwardDrafter(std::size_t most, bool calibrated, int probe_steps);

  std::size_t most() const { return most_; }

  // As a new request sees it, whose text is sampled at that temperature; 0: greedily. What greedy
  // text shows of a drafter is too good for sampled text: such requests learn from each other alone.
  Guesser guesser(double temperature) const;

  // Whether to run it; asked once a step.
  bool runs(bool pays);

  // Which of so many rows to run it for where it is only tried: a few, in turn; rising.
  std::vector<std::size_t> trial(std::size_t rows) const;

 private:
  std::size_t most_;
  int probe_steps_;
  int idle_ = 0;  // steps since it paid, or was tried
  int tries_ = 0;  // since it paid
  std::array<std::shared_ptr<Overall>, 3> overall_;  // by how warm the text is that it drafts for
};

}  // namespace specgate::policy
