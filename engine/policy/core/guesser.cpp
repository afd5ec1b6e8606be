#include "guesser.hpp"

#include <algorithm>
#include <utility>

namespace specgate::policy {

Guesser::Guesser(const std::shared_ptr<PositionAcceptance>& overall,
                 std::shared_ptr<ConfidenceCalibration> calibration)
    : acceptance_(overall->positions(), overall, 0.0), calibration_(std::move(calibration)) {}

double Guesser::expected_gain(std::size_t most, double price) const {
  const std::size_t length = std::min(most, acceptance_.positions());
  double reached = 1.0;
  double gain = 0.0;
  for (std::size_t at = 0; at < length; ++at) {
    reached *= acceptance_.rate(at);
    if (!(reached >= price)) break;
    gain += reached - price;
  }
  return gain;
}

std::vector<double> Guesser::propose(std::span<const std::int32_t> tokens,
                                     std::optional<std::span<const double>> confidence) {
  tokens_.assign(tokens.begin(), tokens.end());
  confidence_.clear();
  rates_.clear();
  std::vector<double> survival;
  if (calibration_ && confidence) {
    confidence_.assign(confidence->begin(), confidence->end());
    rates_ = acceptance_.rates();
    survival = calibration_->survival(confidence_, rates_);
  } else {
    survival = acceptance_.survival();
  }
  if (survival.size() > tokens_.size()) survival.resize(tokens_.size());
  return survival;
}

void Guesser::learn(std::span<const std::int32_t> sampled) {
  if (tokens_.empty()) return;
  const std::size_t known = std::min(tokens_.size(), sampled.size());
  std::size_t right = 0;
  while (right < known && tokens_[right] == sampled[right]) ++right;
  if (!confidence_.empty()) {
    const auto seen = std::span(confidence_).first(std::min(known, confidence_.size()));
    calibration_->learn(seen, rates_, right);
  }
  acceptance_.learn(known, right);
  tokens_.clear();
}

}  // namespace specgate::policy
