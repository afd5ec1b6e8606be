#include "pricing.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <stdexcept>
#include <utility>

namespace specgate::policy {

std::size_t paying(std::span<const double> survival, double price) {
  std::size_t length = 0;
  while (length < survival.size() && survival[length] >= price) ++length;
  return length;
}

double worth(std::span<const double> survival, double price) {
  double gain = 0.0;
  for (const double chance : survival.first(paying(survival, price))) gain += chance - price;
  return gain;
}

Marginals::Marginals(std::vector<double> added) : added_(std::move(added)) {
  if (added_.empty()) throw std::invalid_argument("added: must not be empty");
  times_ = added_;
  times_.front() = 1.0;
  std::partial_sum(times_.begin(), times_.end(), times_.begin());
}

double Marginals::at(std::size_t tokens) const {
  return added_[std::min(tokens, added_.size() - 1)];
}

double Marginals::time(std::size_t tokens) const {
  if (tokens == 0) return times_.front();
  if (tokens <= times_.size()) return times_[tokens - 1];
  return times_.back() + static_cast<double>(tokens - times_.size()) * added_.back();
}

std::optional<double> Marginals::settle(std::span<double> survival, std::size_t tokens,
                                        double worth) const {
  const auto price = [&](std::size_t bought) { return worth * at(tokens + bought); };
  // None is cheaper than the first; what does not even reach that need not be put in order.
  const auto rest = std::partition(survival.begin(), survival.end(),
                                   [&](double chance) { return chance >= price(0); });
  // The surer a token the earlier it is bought, and prices only rise: so those that pay come first,
  // and halving finds the last of them.
  const auto in_place = [&](std::size_t token) {
    return survival.begin() + static_cast<std::ptrdiff_t>(token);
  };
  std::size_t bought = 0;
  std::size_t end = static_cast<std::size_t>(rest - survival.begin());
  while (bought < end) {
    const std::size_t middle = bought + (end - bought) / 2;
    std::nth_element(in_place(bought), in_place(middle), in_place(end), std::greater{});
    if (survival[middle] >= price(middle)) {
      bought = middle + 1;
    } else {
      end = middle;
    }
  }
  if (bought == survival.size()) return std::nullopt;
  return bought == 0 ? price(0) : std::min(survival[bought - 1], price(bought));
}

}  // namespace specgate::policy
