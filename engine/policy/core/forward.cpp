#include "forward.hpp"

#include <algorithm>
#include <utility>

#include "pricing.hpp"

namespace specgate::policy {
namespace {

// Proposals that are kept, and the weight of one relative to the next.
constexpr std::size_t kLatestOfOne = 8;
constexpr std::size_t kLatestOfAll = 32;
constexpr double kKeepOfOne = 0.85;
constexpr double kKeepOfAll = 0.92;
constexpr double kPriorProposals = 2.0;

// Sequences of a try. A pass over all may take a fifth of a step, and a few tell as much.
constexpr std::size_t kTrialSequences = 8;

constexpr int kFirstTries = 8;  // in the first steps
constexpr int kTries = 4;       // in vain, before the interval grows
constexpr int kRarest = 3;      // longest interval, in units of `probe_steps`

// Temperatures above this count as high. Chat is mostly sampled above it, code below.
constexpr double kWarm = 0.5;

}  // namespace

void Latest::add(std::span<const double> survival) {
  if (survival_.size() < proposals_ * positions_) {
    next_ = survival_.size() / positions_;
    survival_.resize(survival_.size() + positions_);
  }
  const auto slot = std::span(survival_).subspan(next_ * positions_, positions_);
  for (std::size_t at = 0; at < positions_; ++at) {
    slot[at] = at < survival.size() ? static_cast<float>(survival[at]) : 0.0F;
  }
  next_ = (next_ + 1) % proposals_;
}

double Latest::gain(std::size_t most, double price, double had, double prior) const {
  double sum = kPriorProposals * prior;
  double count = kPriorProposals;
  double weight = 1.0;
  const std::size_t held = positions_ == 0 ? 0 : survival_.size() / positions_;
  for (std::size_t back = 0, slot = next_; back < held; ++back) {
    slot = (slot == 0 ? held : slot) - 1;
    double gain = 0.0;
    for (std::size_t at = 0; at < most; ++at) {
      // Without a branch, because it would be mispredicted.
      gain += std::max(0.0, survival_[slot * positions_ + at] - price);
    }
    sum += weight * std::max(0.0, gain - had);
    count += weight;
    weight *= keep_;
  }
  return sum / count;
}

DrafterHistory::DrafterHistory(std::size_t positions, bool calibrated)
    : acceptance(std::make_shared<PositionAcceptance>(positions)),
      opinion(positions),
      latest(kLatestOfAll, positions, kKeepOfAll) {
  if (calibrated) calibration.emplace(positions);
}

Proposals::Proposals(std::shared_ptr<DrafterHistory> history)
    : history_(std::move(history)),
      acceptance_(history_->acceptance->positions(), history_->acceptance),
      latest_(kLatestOfOne, history_->acceptance->positions(), kKeepOfOne) {}

std::vector<double> Proposals::usual() const {
  std::vector<double> survival = acceptance_.rates();
  for (std::size_t at = 1; at < survival.size(); ++at) survival[at] *= survival[at - 1];
  return survival;
}

double Proposals::expected_gain(std::size_t most, double price, double had) const {
  const std::size_t length = std::min(most, acceptance_.positions());
  // What follows from the rates of acceptance by position is all that is known of a drafter that
  // states no probabilities; for others it is the prior.
  const std::vector<double> survival = usual();
  double gain = std::max(0.0, worth(std::span(survival).first(length), price) - had);
  if (!history_->calibration) return gain;
  gain = history_->latest.gain(length, price, had, gain);
  return latest_.gain(length, price, had, gain);
}

std::vector<double> Proposals::propose(std::span<const std::int32_t> tokens,
                                       std::optional<std::span<const double>> confidence) {
  tokens_.assign(tokens.begin(), tokens.end());
  confidence_.clear();
  comparisons_.clear();
  rates_ = acceptance_.rates();
  if (history_->calibration && confidence) {
    confidence_.assign(confidence->begin(), confidence->end());
    survival_ = history_->calibration->survival(confidence_, rates_);
  } else {
    survival_ = usual();
  }
  if (survival_.size() > tokens_.size()) survival_.resize(tokens_.size());
  if (!confidence_.empty()) {
    latest_.add(survival_);
    history_->latest.add(survival_);
  }
  return survival_;
}

SecondOpinion::Weighed Proposals::weigh(const StatedDraft& draft) {
  SecondOpinion::Weighed weighed = history_->opinion.weigh(draft, {tokens_, survival_});
  comparisons_ = weighed.comparisons;
  return weighed;
}

void Proposals::learn(std::span<const std::int32_t> sampled) {
  if (tokens_.empty()) return;
  const std::size_t known = std::min(tokens_.size(), sampled.size());
  std::size_t right = 0;
  while (right < known && tokens_[right] == sampled[right]) ++right;
  if (!confidence_.empty()) {
    const auto seen = std::span(confidence_).first(std::min(known, confidence_.size()));
    history_->calibration->learn(seen, rates_, right);
  }
  acceptance_.learn(known, right);
  history_->opinion.learn(comparisons_, sampled);
  tokens_.clear();
  comparisons_.clear();
}

void Proposals::learn_verified(std::size_t verified, std::size_t accepted) {
  acceptance_.learn(std::min(verified, accepted + 1), accepted);
}

void Proposals::prefetch() const {
  acceptance_.prefetch();
  latest_.prefetch();
  __builtin_prefetch(tokens_.data());
  __builtin_prefetch(confidence_.data());
  __builtin_prefetch(rates_.data());
  __builtin_prefetch(survival_.data());
  __builtin_prefetch(comparisons_.data());
}

ForwardDrafter::ForwardDrafter(std::size_t most, bool calibrated, int probe_steps)
    : most_(most), probe_steps_(probe_steps), tries_(-kFirstTries) {
  for (auto& history : history_) history = std::make_shared<DrafterHistory>(most, calibrated);
}

Proposals ForwardDrafter::proposals(double temperature) const {
  return Proposals(history_[temperature > kWarm ? 2 : temperature > 0.0 ? 1 : 0]);
}

bool ForwardDrafter::runs(bool pays) {
  if (pays) {
    idle_ = tries_ = 0;
    return true;
  }
  const int interval = tries_ < 0 ? 1 : probe_steps_ * std::min(kRarest, 1 + tries_ / kTries);
  if (++idle_ < interval) return false;
  idle_ = 0;
  ++tries_;
  return true;
}

std::vector<std::size_t> ForwardDrafter::trial(std::size_t sequences) const {
  const std::size_t apart = (sequences + kTrialSequences - 1) / kTrialSequences;
  std::vector<std::size_t> chosen;
  if (sequences == 0) return chosen;
  const auto first = static_cast<std::size_t>(tries_ + kFirstTries) % apart;
  for (std::size_t at = first; at < sequences; at += apart) chosen.push_back(at);
  return chosen;
}

}  // namespace specgate::policy
