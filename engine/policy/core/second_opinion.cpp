#include "second_opinion.hpp"

#include <algorithm>

namespace specgate::policy {
namespace {

// Where models begin: weights of nothing, of the draft's logit, and of the guess's (docs/adr/0025).
constexpr Logistic kBoth{.weights{0.5, 0.6, 0.65}};
constexpr Logistic kDraft{.weights{-0.9, 0.8, -0.35}};
constexpr Logistic kGuess{.weights{-0.5, -0.4, 0.95}};

// A draft that is as sure as that has little to gain, be it ever so long.
constexpr double kSure = 0.97;

constexpr double kKeep = 0.98;  // what a gain counts less than the one after it

// The chance of a token, given that those before it are accepted.
double step(std::span<const double> survival, std::size_t at) {
  if (at == 0) return survival[0];
  return survival[at - 1] > 0.0 ? std::min(1.0, survival[at] / survival[at - 1]) : 0.0;
}

// Whoever reaches a place with `chance` goes on from there as claimed.
void go_on(std::span<const double> survival, double chance, std::vector<double>& found) {
  for (std::size_t at = found.size(); at < survival.size(); ++at) {
    chance *= step(survival, at);
    found.push_back(chance);
  }
}

}  // namespace

SecondOpinion::SecondOpinion(std::size_t positions)
    : positions_(positions, Position{kBoth, kDraft, kGuess}) {}

SecondOpinion::Verdict SecondOpinion::weigh(const Claim& draft, const Claim& guess) const {
  Verdict verdict;
  verdict.draft.reserve(draft.survival.size());
  verdict.guess.reserve(guess.survival.size());
  const std::size_t met =
      std::min({positions_.size(), draft.survival.size(), guess.survival.size()});
  double drafted = 1.0;
  double guessed = 1.0;
  for (std::size_t at = 0; at < met; ++at) {
    const Position& position = positions_[at];
    const Meeting meeting{draft.tokens[at], guess.tokens[at],
                          {1.0, logit(step(draft.survival, at)), logit(step(guess.survival, at))}};
    verdict.meetings.push_back(meeting);
    const bool agree = meeting.draft == meeting.guess;
    if (agree) {
      drafted *= position.both.chance(meeting.features);
      guessed = drafted;
    } else {
      const double mine = position.draft.chance(meeting.features);
      const double other = position.guess.chance(meeting.features);
      const double all = std::max(1.0, mine + other);  // only one of them comes
      drafted *= mine / all;
      guessed *= other / all;
    }
    verdict.draft.push_back(drafted);
    verdict.guess.push_back(guessed);
    if (!agree) break;
  }
  go_on(draft.survival, drafted, verdict.draft);
  go_on(guess.survival, guessed, verdict.guess);
  return verdict;
}

void SecondOpinion::learn(std::span<const Meeting> meetings,
                          std::span<const std::int32_t> sampled) {
  const std::size_t known = std::min(meetings.size(), sampled.size());
  for (std::size_t at = 0; at < known; ++at) {
    const Meeting& meeting = meetings[at];
    Position& position = positions_[at];
    if (meeting.draft == meeting.guess) {
      position.both.learn(meeting.features, meeting.draft == sampled[at]);
    } else {
      position.draft.learn(meeting.features, meeting.draft == sampled[at]);
      position.guess.learn(meeting.features, meeting.guess == sampled[at]);
    }
    if (meeting.guess != sampled[at]) return;
  }
}

double SecondOpinion::gain(double first) const {
  const Mean& mean = gains_[band(first)];
  return mean.sum / mean.count;
}

void SecondOpinion::note(double first, double gain) {
  Mean& mean = gains_[band(first)];
  mean.sum = kKeep * mean.sum + gain;
  mean.count = kKeep * mean.count + 1.0;
}

// Eighths, and those that are sure.
std::size_t SecondOpinion::band(double first) {
  if (first > kSure) return kBands - 1;
  const double eighths = std::clamp(first, 0.0, 1.0) * static_cast<double>(kBands - 1);
  return std::min(static_cast<std::size_t>(eighths), kBands - 2);
}

}  // namespace specgate::policy
