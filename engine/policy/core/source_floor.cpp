#include "source_floor.hpp"

#include <algorithm>

namespace specgate::policy {
namespace {

// Change per token. With a limit of 0.4, some 250 rejected tokens in small steps shut a source.
constexpr double kRate = 0.01;
// Largest change in one step: this part of the distance to 1, but at least kLeastMove. The tokens
// of a large batch are rejected before the floor can react, and must not shut the source at once.
constexpr double kMostPart = 1.0 / 8.0;
constexpr double kLeastMove = 0.02;
// Above 1, so that a source that was shut stays shut for some 500 steps.
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
