// How fast a request gets on: tokens a step, of late.
#pragma once

#include <cstddef>

namespace specgate::policy {

class Pace {
 public:
  // A step brought it so many tokens.
  void learn(std::size_t tokens);

  // What a token of its counts where requests get `mean` tokens a step: it saves the time in which
  // the request would have got it otherwise, which is little in a copy that gets on fast anyway.
  double count(double mean) const;

 private:
  double tokens_ = 0.0;
  double steps_ = 0.0;
};

}  // namespace specgate::policy
