#include "guesser.hpp"

#include <algorithm>
#include <utility>

namespace specgate::policy {
namespace {

constexpr double kStart = 0.5;  // how often a token is accepted before any was seen

// Proposals that are looked back at, and how many the prior counts for.
constexpr std::size_t kShownOfOne = 8;
constexpr std::size_t kShownOfAll = 32;
constexpr double kKeepOfOne = 0.85;
constexpr double kKeepOfAll = 0.92;
constexpr double kPriorProposals = 2.0;

}  // namespace

Overall::Overall(std::size_t positions, bool calibrated)
    : acceptance(std::make_shared<PositionAcceptance>(positions, nullptr, kStart)),
      calibration(calibrated ? std::make_unique<ConfidenceCalibration>(positions) : nullptr),
      opinion(positions),
      shown(kShownOfAll, positions, kKeepOfAll) {}

Guesser::Guesser(std::shared_ptr<Overall> overall)
    : overall_(std::move(overall)),
      acceptance_(overall_->acceptance->positions(), overall_->acceptance, 0.0),
      shown_(kShownOfOne, overall_->acceptance->positions(), kKeepOfOne) {}

double Guesser::expected_gain(std::size_t most, double price) const {
  // By how often each position was accepted: all there is for a drafter that does not say how sure
  // it is, and the prior of what others state.
  const std::size_t length = std::min(most, acceptance_.positions());
  double reached = 1.0;
  double gain = 0.0;
  for (std::size_t at = 0; at < length; ++at) {
    reached *= acceptance_.rate(at);
    if (!(reached >= price)) break;
    gain += reached - price;
  }
  if (!overall_->calibration) return gain;
  for (const Shown* shown : {&std::as_const(overall_->shown), &shown_}) {
    const Shown::Sum sum = shown->gain(length, price);
    gain = (kPriorProposals * gain + sum.gain) / (kPriorProposals + sum.count);
  }
  return gain;
}

std::vector<double> Guesser::propose(std::span<const std::int32_t> tokens,
                                     std::optional<std::span<const double>> confidence) {
  tokens_.assign(tokens.begin(), tokens.end());
  confidence_.clear();
  rates_.clear();
  meetings_.clear();
  if (overall_->calibration && confidence) {
    confidence_.assign(confidence->begin(), confidence->end());
    rates_ = acceptance_.rates();
    survival_ = overall_->calibration->survival(confidence_, rates_);
  } else {
    survival_ = acceptance_.survival();
  }
  if (survival_.size() > tokens_.size()) survival_.resize(tokens_.size());
  if (!confidence_.empty()) {
    shown_.add(survival_);
    overall_->shown.add(survival_);
  }
  return survival_;
}

SecondOpinion::Verdict Guesser::weigh(const Claim& draft) {
  SecondOpinion::Verdict verdict = overall_->opinion.weigh(draft, {tokens_, survival_});
  meetings_ = verdict.meetings;
  return verdict;
}

void Guesser::prefetch() const {
  acceptance_.prefetch();
  shown_.prefetch();
  __builtin_prefetch(tokens_.data());
  __builtin_prefetch(confidence_.data());
  __builtin_prefetch(rates_.data());
  __builtin_prefetch(survival_.data());
  __builtin_prefetch(meetings_.data());
}

void Guesser::learn(std::span<const std::int32_t> sampled) {
  if (tokens_.empty()) return;
  const std::size_t known = std::min(tokens_.size(), sampled.size());
  std::size_t right = 0;
  while (right < known && tokens_[right] == sampled[right]) ++right;
  if (!confidence_.empty()) {
    const auto seen = std::span(confidence_).first(std::min(known, confidence_.size()));
    overall_->calibration->learn(seen, rates_, right);
  }
  acceptance_.learn(known, right);
  overall_->opinion.learn(meetings_, sampled);
  tokens_.clear();
  meetings_.clear();
}

}  // namespace specgate::policy
