#include "regime.hpp"

#include <utility>

namespace specgate::policy {
namespace {

constexpr double kRate = 1.0 / 64.0;
constexpr double kShutBelow = 0.05;
constexpr double kOpenAbove = 0.25;

}  // namespace

bool Regime::learn(bool drafted) {
  share_ += kRate * ((drafted ? 1.0 : 0.0) - share_);
  const bool is_open = share_ > (is_open_ ? kShutBelow : kOpenAbove);
  return is_open != std::exchange(is_open_, is_open);
}

}  // namespace specgate::policy
