#include "source_floor.hpp"

#include <algorithm>

namespace specgate::policy {
namespace {

// Per token: some 250 that are all refused, few at a time, shut a source whose limit is 0.4.
constexpr double kRate = 0.01;
// In a step, whatever came of it: what a large batch drafts is refused before the floor can have an
// effect, and must not shut the source. Of what is left up to 1, but at least so much.
constexpr double kMostPart = 1.0 / 8.0;
constexpr double kLeastMove = 0.02;
// Above 1, so that a source that was shut stays so for some 500 steps.
constexpr double kMost = 1.25;
constexpr double kRecovery = 1.0 / 2048.0;

}  // namespace

void SourceFloor::learn(std::size_t drafted, std::size_t accepted) {
  const double missing = ratio_ * static_cast<double>(drafted) - static_cast<double>(accepted);
  const double most = std::max(kLeastMove, kMostPart * (1.0 - least_));
  least_ = std::clamp(least_ + std::clamp(kRate * missing, -most, most), 0.0, kMost);
}

void SourceFloor::wait() { least_ = std::max(0.0, least_ - kRecovery); }

}  // namespace specgate::policy
