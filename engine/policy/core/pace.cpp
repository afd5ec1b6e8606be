#include "pace.hpp"

namespace specgate::policy {
namespace {

constexpr double kKeep = 0.7;        // of a step, one step later
constexpr double kPriorSteps = 2.0;  // at the mean pace

}  // namespace

void Pace::learn(std::size_t tokens) {
  tokens_ = kKeep * tokens_ + static_cast<double>(tokens);
  steps_ = kKeep * steps_ + 1.0;
}

double Pace::count(double mean) const {
  return mean * (steps_ + kPriorSteps) / (tokens_ + kPriorSteps * mean);
}

}  // namespace specgate::policy
