#include "proposal_value.hpp"

#include <algorithm>
#include <utility>

namespace specgate::policy {
namespace {

constexpr double kStart = 0.5;  // acceptance rate before anything was observed

// Recent proposals that are kept, and the weight of the prior in proposals.
constexpr std::size_t kProposalsOfOne = 8;
constexpr std::size_t kProposalsOfAll = 32;
constexpr double kKeepOfOne = 0.85;
constexpr double kKeepOfAll = 0.92;
constexpr double kPriorProposals = 2.0;

}  // namespace

DrafterHistory::DrafterHistory(std::size_t positions, bool calibrated)
    : acceptance(std::make_shared<PositionAcceptance>(positions, nullptr, kStart)),
      calibration(calibrated ? std::make_unique<ConfidenceCalibration>(positions) : nullptr),
      opinion(positions),
      recent_gain(kProposalsOfAll, positions, kKeepOfAll) {}

ProposalValue::ProposalValue(std::shared_ptr<DrafterHistory> history)
    : history_(std::move(history)),
      acceptance_(history_->acceptance->positions(), history_->acceptance, 0.0),
      recent_gain_(kProposalsOfOne, history_->acceptance->positions(), kKeepOfOne) {}

double ProposalValue::expected_gain(std::size_t most, double price) const {
  // From the acceptance rates by position. A drafter that states no probabilities has only these;
  // for others they are the prior.
  const std::size_t length = std::min(most, acceptance_.positions());
  double reached = 1.0;
  double gain = 0.0;
  for (std::size_t at = 0; at < length; ++at) {
    reached *= acceptance_.rate(at);
    if (!(reached >= price)) break;
    gain += reached - price;
  }
  if (!history_->calibration) return gain;
  for (const ExpectedGain* recent_gain : {&std::as_const(history_->recent_gain), &recent_gain_}) {
    const ExpectedGain::Sum sum = recent_gain->gain(length, price);
    gain = (kPriorProposals * gain + sum.gain) / (kPriorProposals + sum.count);
  }
  return gain;
}

std::vector<double> ProposalValue::propose(std::span<const std::int32_t> tokens,
                                           std::optional<std::span<const double>> confidence) {
  tokens_.assign(tokens.begin(), tokens.end());
  confidence_.clear();
  rates_.clear();
  comparisons_.clear();
  if (history_->calibration && confidence) {
    confidence_.assign(confidence->begin(), confidence->end());
    rates_ = acceptance_.rates();
    survival_ = history_->calibration->survival(confidence_, rates_);
  } else {
    survival_ = acceptance_.survival();
  }
  if (survival_.size() > tokens_.size()) survival_.resize(tokens_.size());
  if (!confidence_.empty()) {
    recent_gain_.add(survival_);
    history_->recent_gain.add(survival_);
  }
  return survival_;
}

SecondOpinion::Weighed ProposalValue::weigh(const Proposal& draft) {
  SecondOpinion::Weighed weighed = history_->opinion.weigh(draft, {tokens_, survival_});
  comparisons_ = weighed.comparisons;
  return weighed;
}

void ProposalValue::prefetch() const {
  acceptance_.prefetch();
  recent_gain_.prefetch();
  __builtin_prefetch(tokens_.data());
  __builtin_prefetch(confidence_.data());
  __builtin_prefetch(rates_.data());
  __builtin_prefetch(survival_.data());
  __builtin_prefetch(comparisons_.data());
}

void ProposalValue::learn(std::span<const std::int32_t> sampled) {
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

}  // namespace specgate::policy
