#include "calibration.hpp"

#include <algorithm>
#include <cmath>

namespace specgate::suffix {

namespace {

// How much of the past counts, so that a changed text soon changes the estimates (adr/0012).
constexpr float kMemory = 64.0f;        // outcomes of each reliability
constexpr float kMostSquares = 1000.0f;  // of the gradients of each weight
constexpr float kDenseStep = 0.1f;      // AdaGrad step sizes: the best of those tried, adr/0012
constexpr float kDiscreteStep = 0.3f;
constexpr int kStepsAgain = 8;          // outcomes between updates of the dense step sizes
constexpr float kFast = 0.3f;
constexpr float kSlow = 0.05f;

// Match lengths are grouped into classes that widen with the length.
constexpr int kLengthClasses = 13;

int length_class(int length) {
  static constexpr std::array<std::uint8_t, 32> kShort = {0, 1, 2, 3, 4, 5, 5, 6, 6, 7, 7,
                                                          7, 8, 8, 8, 8, 9, 9, 9, 9, 9, 9,
                                                          9, 9, 10, 10, 10, 10, 10, 10, 10, 10};
  if (length < 32) return kShort[static_cast<std::size_t>(length)];
  return length < 64 ? 11 : 12;
}

// Far beyond what is learnt, and far from where sums overflow. NaN fails every comparison.
bool is_weight(float value) { return std::abs(value) <= 1e4f; }
bool is_square(float value) { return value > 1e-3f && value <= kMostSquares; }

// Multiplicative hash. It is not salted, because a collision only costs precision.
std::uint32_t scramble(std::uint32_t value, int bits) { return value * 2654435761u >> (32 - bits); }

struct Logs {
  std::array<float, 257> of;
  Logs() {
    for (std::size_t i = 0; i < of.size(); ++i) of[i] = std::log(1.0f + static_cast<float>(i));
  }
};

float log1p_of(int count) {
  static const Logs logs;
  return logs.of[static_cast<std::size_t>(std::min(count, 256))];
}

}  // namespace

bool Prior::is_sound() const {
  const auto is_share = [](float value) { return value >= 0.0f && value <= 1.0f; };
  const auto are_shares = [&](const auto& shares) {
    return std::ranges::all_of(shares, is_share);
  };
  return outcomes >= 1.0f && outcomes <= kMemory && std::ranges::all_of(reliability, are_shares) &&
         std::ranges::all_of(dense, is_weight) && std::ranges::all_of(dense_squares, is_square) &&
         std::ranges::all_of(weights, is_weight) && std::ranges::all_of(squares, is_square);
}

Reliability::Reliability(const Prior& prior) {
  for (std::size_t kind = 0; kind < entries_.size(); ++kind) {
    for (std::size_t length = 0; length <= kLongestMatch; ++length) {
      Entry& entry = entries_[kind][length];
      entry.seen = prior.outcomes;
      entry.right = prior.reliability[kind][length] * prior.outcomes;
      refresh(entry);
    }
  }
}

void Reliability::refresh(Entry& entry) {
  constexpr float kLeast = 0.02f / 0.98f;
  const float wrong = std::max(entry.seen - entry.right, kLeast);
  const float odds = std::clamp(entry.right / wrong, kLeast, 1.0f / kLeast);
  entry.weight = odds * odds * odds;
}

void Reliability::learn(Kind kind, int match_length, bool right) {
  Entry& entry = entries_[row(kind)][static_cast<std::size_t>(match_length)];
  entry.right += right ? 1.0f : 0.0f;
  entry.seen += 1.0f;
  if (entry.seen > kMemory) {
    entry.right *= kMemory / entry.seen;
    entry.seen = kMemory;
  }
  refresh(entry);
}

bool Reliability::is_sound() const {
  return std::ranges::all_of(entries_, [](const auto& lengths) {
    return std::ranges::all_of(lengths, [](const Entry& entry) {
      // The bounds of weights are the cubes of those in `refresh`, and rounding.
      return entry.right >= 0.0f && entry.right <= entry.seen && entry.seen <= kMemory &&
             entry.weight > 8e-6f && entry.weight < 1.2e5f;
    });
  });
}

void Reliability::copy_to(Prior& prior) const {
  for (std::size_t kind = 0; kind < entries_.size(); ++kind) {
    for (std::size_t length = 0; length <= kLongestMatch; ++length) {
      const Entry& entry = entries_[kind][length];
      prior.reliability[kind][length] = entry.right / entry.seen;
    }
  }
}

void RecentOutcomes::learn(int accepted_tokens, int drafted_tokens) {
  last = accepted_tokens == 0                ? Outcome::kWrong
         : accepted_tokens < drafted_tokens ? Outcome::kPartlyRight
                                            : Outcome::kRight;
  for (int i = 0; i < drafted_tokens && i <= accepted_tokens; ++i) {
    const float outcome = i < accepted_tokens ? 1.0f : 0.0f;
    fast += kFast * (outcome - fast);
    slow += kSlow * (outcome - slow);
  }
}

SurvivalModel::SurvivalModel(const Prior& prior)
    : dense_(prior.dense), dense_squares_(prior.dense_squares) {
  for (std::size_t i = 0; i < kStructured; ++i) weights_[i] = {prior.weights[i], prior.squares[i]};
}

void SurvivalModel::copy_to(Prior& prior) const {
  prior.dense = dense_;
  prior.dense_squares = dense_squares_;
  for (std::size_t i = 0; i < kStructured; ++i) {
    prior.weights[i] = weights_[i].value;
    prior.squares[i] = weights_[i].square;
  }
}

bool SurvivalModel::is_sound() const {
  const auto is_step = [](float value) { return value >= 0.0f && value <= 1e2f; };
  return until_steps_ >= 0 && until_steps_ < kStepsAgain &&
         std::ranges::all_of(dense_, is_weight) && std::ranges::all_of(dense_squares_, is_square) &&
         std::ranges::all_of(dense_steps_, is_step) &&
         std::ranges::all_of(weights_, [&](const Weight& weight) {
           return is_weight(weight.value) && is_square(weight.square);
         });
}

Features SurvivalModel::features(const Vote& vote, const RecentOutcomes& outcomes) {
  const float share = std::clamp(vote.share, 0.01f, 0.99f);
  const float length = log1p_of(vote.match_length);
  const float fast = outcomes.fast - 0.5f;
  Features out;
  out.dense = {
      0.5f * std::log(share / (1.0f - share)),
      1.0f,
      length,
      0.3f * length * length,
      log1p_of(vote.voters - 1),
      vote.own ? 1.0f : 0.0f,
      vote.log_survival,
      vote.matches == 1 ? 1.0f : 0.0f,
      log1p_of(vote.rival_length),
      log1p_of(vote.depth),
      vote.voters == vote.matches ? 1.0f : 0.0f,
      vote.voters == 1 ? 1.0f : 0.0f,
      vote.aligned ? 1.0f : 0.0f,
      fast,
      outcomes.slow - 0.5f,
      0.5f * std::log(vote.weight) / 3.0f,  // half of its log odds: a weight is cubed odds
      vote.depth == 0 ? fast : 0.0f,
      0.3f * fast * length,
      outcomes.temperature,
      outcomes.temperature * length,
  };
  const int now = length_class(vote.match_length);
  const auto token = static_cast<std::uint32_t>(vote.token);
  const auto previous = static_cast<std::uint32_t>(vote.previous);
  std::uint32_t base = 0;
  int next = 0;
  const auto add = [&](std::uint32_t value, std::uint32_t values) {
    out.discrete[static_cast<std::size_t>(next++)] = static_cast<std::uint16_t>(base + value);
    base += values;
  };
  const int region = (vote.aligned ? 2 : 0) + (vote.own ? 1 : 0);  // of any voter
  const int last = static_cast<int>(outcomes.last);
  // How the votes are split.
  const int split = (std::min(vote.tokens, 5) - 1) * 40 + (std::min(vote.voters, 5) - 1) * 8 +
                    std::min(vote.matches, 8) - 1;
  add(static_cast<std::uint32_t>((now * kRegions + region) * kOutcomes + last),
      kLengthClasses * kRegions * kOutcomes);
  add(static_cast<std::uint32_t>(split), 200);
  add(scramble(token, 10), 1024);
  add(scramble(previous, 9), 512);
  add(scramble(previous * 31337u + token, 11), 2048);
  add(scramble(static_cast<std::uint32_t>(std::min(vote.match_length, 6)) * 7919u + token, 10),
      1024);
  add(scramble(static_cast<std::uint32_t>(now) * 7919u + previous, 10), 1024);
  return out;
}

float SurvivalModel::score(const Features& features) const {
  // Four independent sums, so that the additions can overlap.
  std::array<float, 4> sums{};
  static_assert(kDense % sums.size() == 0);
  for (std::size_t i = 0; i < kDense; i += sums.size()) {
    for (std::size_t lane = 0; lane < sums.size(); ++lane) {
      sums[lane] += dense_[i + lane] * features.dense[i + lane];
    }
  }
  float sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  for (const std::uint16_t index : features.discrete) sum += weights_[index].value;
  return sum;
}

void SurvivalModel::learn(const Features& features, float score, bool right) {
  if (until_steps_-- == 0) {
    until_steps_ = kStepsAgain - 1;
    for (std::size_t i = 0; i < kDense; ++i) {
      dense_steps_[i] = kDenseStep / std::sqrt(dense_squares_[i]);
    }
  }
  const float error = (right ? 1.0f : 0.0f) - 1.0f / (1.0f + std::exp(-score));
  for (std::size_t i = 0; i < kDense; ++i) {
    const float gradient = error * features.dense[i];
    dense_squares_[i] = std::min(dense_squares_[i] + gradient * gradient, kMostSquares);
    dense_[i] += gradient * dense_steps_[i];
  }
  for (const std::uint16_t index : features.discrete) {
    Weight& weight = weights_[index];
    weight.square = std::min(weight.square + error * error, kMostSquares);
    weight.value += kDiscreteStep * error / std::sqrt(weight.square);
  }
}

Prior Model::learnt() const {
  Prior prior{};
  prior.outcomes = kMemory;
  reliability.copy_to(prior);
  survival.copy_to(prior);
  return prior;
}

}  // namespace specgate::suffix
