#include "expected_gain.hpp"

#include <algorithm>

namespace specgate::policy {

void ExpectedGain::add(std::span<const double> survival) {
  if (positions_ == 0) return;
  if (survival_.size() < proposals_ * positions_) {
    next_ = survival_.size() / positions_;
    survival_.resize(survival_.size() + positions_);
  }
  const auto slot = std::span(survival_).subspan(next_ * positions_, positions_);
  const std::size_t known = std::min(positions_, survival.size());
  for (std::size_t at = 0; at < positions_; ++at) {
    slot[at] = at < known ? static_cast<float>(survival[at]) : 0.0F;
  }
  next_ = (next_ + 1) % proposals_;
}

ExpectedGain::Sum ExpectedGain::gain(std::size_t most, double price) const {
  Sum sum;
  if (positions_ == 0) return sum;
  const std::size_t held = survival_.size() / positions_;
  const std::size_t length = std::min(most, positions_);
  double weight = 1.0;
  // From the latest proposal back.
  for (std::size_t back = 0, slot = next_; back < held; ++back) {
    slot = (slot == 0 ? held : slot) - 1;
    double gain = 0.0;  // a sum of its own, so that additions of different proposals can overlap
    for (std::size_t at = 0; at < length; ++at) {
      // Without a branch, because it would be mispredicted.
      gain += std::max(0.0, survival_[slot * positions_ + at] - price);
    }
    sum.gain += weight * gain;
    sum.count += weight;
    weight *= keep_;
  }
  return sum;
}

}  // namespace specgate::policy
