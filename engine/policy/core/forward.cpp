#include "forward.hpp"

namespace specgate::policy {
namespace {

constexpr double kStart = 0.5;  // how often a token is accepted before any was seen

}  // namespace

ForwardDrafter::ForwardDrafter(std::size_t most, bool calibrated, int probe_steps)
    : most_(most),
      probe_steps_(probe_steps),
      overall_(std::make_shared<PositionAcceptance>(most, nullptr, kStart)),
      calibration_(calibrated ? std::make_shared<ConfidenceCalibration>(most) : nullptr) {}

bool ForwardDrafter::runs(bool pays) {
  idle_ = pays ? 0 : idle_ + 1;
  if (idle_ != probe_steps_) return pays;
  idle_ = 0;
  return true;
}

}  // namespace specgate::policy
