// A drafter that costs a forward pass, over all requests: whether it is worth its time, and what it
// has shown.
#pragma once

#include <cstddef>
#include <memory>

#include "acceptance.hpp"
#include "confidence.hpp"
#include "guesser.hpp"

namespace specgate::policy {

class ForwardDrafter {
 public:
  // Proposes up to `most` tokens, 0 where there is none; `calibrated`: and says how sure it is of
  // them. Where it is not worth it, it is asked every `probe_steps` steps: it may have become so.
  ForwardDrafter(std::size_t most, bool calibrated, int probe_steps);

  std::size_t most() const { return most_; }

  // As a new request sees it.
  Guesser guesser() const { return Guesser(overall_, calibration_); }

  // Whether to run it; asked once a step.
  bool runs(bool pays);

 private:
  std::size_t most_;
  int probe_steps_;
  int idle_ = 0;  // steps since it paid, or was tried
  std::shared_ptr<PositionAcceptance> overall_;
  std::shared_ptr<ConfidenceCalibration> calibration_;
};

}  // namespace specgate::policy
