#include "guesser.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include "pricing.hpp"

namespace specgate::policy {

Guesser::Guesser(const std::shared_ptr<PositionAcceptance>& overall,
                 std::shared_ptr<ConfidenceCalibration> calibration)
    : acceptance_(overall->positions(), overall, 0.0), calibration_(std::move(calibration)) {}

double Guesser::expected_gain(std::size_t most, double price) const {
  const std::vector<double> survival = acceptance_.survival();
  return worth(std::span(survival).first(std::min(most, survival.size())), price);
}

std::vector<double> Guesser::propose(std::vector<std::int64_t> tokens,
                                     std::optional<std::vector<double>> confidence) {
  tokens_ = std::move(tokens);
  confidence_.clear();
  rates_.clear();
  std::vector<double> survival;
  if (calibration_ && confidence) {
    confidence_ = std::move(*confidence);
    rates_ = acceptance_.rates();
    survival = calibration_->survival(confidence_, rates_);
  } else {
    survival = acceptance_.survival();
  }
  if (survival.size() > tokens_.size()) survival.resize(tokens_.size());
  return survival;
}

void Guesser::learn(const std::vector<std::int64_t>& sampled) {
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
