#include "step_rate.hpp"

namespace specgate::policy {
namespace {

constexpr double kKeep = 0.7;        // weight of a step relative to the next one
constexpr double kPriorSteps = 2.0;  // steps at the mean rate

}  // namespace

void StepRate::learn(std::size_t tokens) {
  tokens_ = kKeep * tokens_ + static_cast<double>(tokens);
  steps_ = kKeep * steps_ + 1.0;
}

double StepRate::token_weight(double mean) const {
  return mean * (steps_ + kPriorSteps) / (tokens_ + kPriorSteps * mean);
}

}  // namespace specgate::policy
