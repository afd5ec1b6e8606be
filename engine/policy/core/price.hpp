// The price of a draft token: how sure it must be to be worth verifying (price.py says why).
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "pricing.hpp"

namespace specgate::policy {

class Price {
 public:
  // `cost` in steps of one token; `margin`: how much more a token must bring than it costs;
  // `least`: lowest price, also where tokens cost nothing.
  Price(std::shared_ptr<const Marginals> cost, double margin, double least);

  // Take a finished step into the averages: `rows` requests got `emitted` tokens, and `drafted`
  // tokens were verified for them.
  void learn(std::size_t rows, std::size_t drafted, std::size_t emitted);

  // Tokens that so many rows bring in the time of a step of one token.
  double goodput(std::size_t rows) const;

  // The price of a step's first draft token; no other is cheaper.
  double floor(std::size_t rows) const;

  // Tokens that so much time, in steps of one token, must bring to be well spent.
  double of_time(double time, std::size_t rows) const { return goodput(rows) * time; }

  // The price at which the tokens that are bought are those that pay. `survival` of all drafts;
  // is put into another order.
  double settle(std::span<double> survival, std::size_t rows) const;

 private:
  std::shared_ptr<const Marginals> cost_;
  double margin_;
  double least_;
  double length_ = 1.0;   // tokens that a row got, of late
  double drafted_ = 0.0;  // tokens that were verified for a row, of late
};

}  // namespace specgate::policy
