#include "drafts.hpp"

#include "pricing.hpp"

namespace specgate::drafting {

double Drafts::gain(const Draft& draft, double price) const {
  return policy::worth(survival(draft), price);
}

std::size_t Drafts::paying(const Draft& draft, double price) const {
  return policy::paying(survival(draft), price);
}

}  // namespace specgate::drafting
