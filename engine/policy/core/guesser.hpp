// What a drafter with a forward pass proposed for a request, and how much of that came true.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "acceptance.hpp"
#include "confidence.hpp"
#include "second_opinion.hpp"
#include "shown.hpp"

namespace specgate::policy {

// What all requests have shown of a drafter.
struct Overall {
  explicit Overall(std::size_t positions, bool calibrated);

  std::shared_ptr<PositionAcceptance> acceptance;
  std::unique_ptr<ConfidenceCalibration> calibration;  // where it says how sure it is, else null
  SecondOpinion opinion;
  Shown shown;
};

class Guesser {
 public:
  explicit Guesser(std::shared_ptr<Overall> overall);

  // The survival of a draft that it has yet to make.
  std::vector<double> expected() const { return acceptance_.survival(); }

  // What such a draft of up to `most` tokens brings at a price, in tokens above their cost.
  double expected_gain(std::size_t most, double price) const;

  // Remember a proposal; the survival of its tokens.
  std::vector<double> propose(std::span<const std::int32_t> tokens,
                              std::optional<std::span<const double>> confidence);

  // What such a proposal brings a row that has another's draft, whose first token is as likely.
  double expected_gain_beside(double first) const { return overall_->opinion.gain(first); }

  // Set the last proposal against another's draft of the row: what is to be believed of both.
  SecondOpinion::Verdict weigh(const Claim& draft);

  // What the proposal brought beside a draft whose first token was as likely.
  void brought(double first, double gain) { overall_->opinion.note(first, gain); }

  // Bring into the cache what the other calls look at.
  void prefetch() const;

  // Score the last proposal by the tokens that came; then it is forgotten.
  void learn(std::span<const std::int32_t> sampled);

 private:
  std::shared_ptr<Overall> overall_;
  PositionAcceptance acceptance_;
  Shown shown_;
  std::vector<std::int32_t> tokens_;
  std::vector<double> confidence_;
  std::vector<double> rates_;  // with which `confidence_` was calibrated
  std::vector<double> survival_;
  std::vector<SecondOpinion::Meeting> meetings_;
};

}  // namespace specgate::policy
