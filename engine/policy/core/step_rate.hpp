// How many tokens per step a request has received recently.
#pragma once

#include <cstddef>

namespace specgate::policy {

class StepRate {
 public:
  // Takes in how many tokens a step brought the request.
  void learn(std::size_t tokens);

  // Returns the weight of one of its draft tokens, where requests get `mean` tokens per step on
  // average: mean divided by the request's own rate. An accepted token saves the time in which the
  // request would have got it anyway, and a fast request saves less.
  double token_weight(double mean) const;

 private:
  double tokens_ = 0.0;
  double steps_ = 0.0;
};

}  // namespace specgate::policy
