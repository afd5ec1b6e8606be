#include "second_opinion.hpp"

#include <algorithm>

namespace specgate::policy {
namespace {

// Prior weights: intercept, logit of the draft, logit of the proposal (docs/adr/0025).
constexpr Logistic kBoth{.weights{0.5, 0.6, 0.65}};
constexpr Logistic kDraft{.weights{-0.9, 0.8, -0.35}};
constexpr Logistic kProposal{.weights{-0.5, -0.4, 0.95}};

// Returns the probability of a token, given that those before it are accepted.
double step(std::span<const double> survival, std::size_t at) {
  if (at == 0) return survival[0];
  return survival[at - 1] > 0.0 ? std::min(1.0, survival[at] / survival[at - 1]) : 0.0;
}

// Appends the rest of the stated survival, rescaled to start from `chance`.
void append_rest(std::span<const double> survival, double chance, std::vector<double>& found) {
  for (std::size_t at = found.size(); at < survival.size(); ++at) {
    chance *= step(survival, at);
    found.push_back(chance);
  }
}

}  // namespace

SecondOpinion::SecondOpinion(std::size_t positions)
    : positions_(positions, Position{kBoth, kDraft, kProposal}) {}

SecondOpinion::Weighed SecondOpinion::weigh(const StatedDraft& draft, const StatedDraft& proposal) const {
  Weighed weighed;
  weighed.draft.reserve(draft.survival.size());
  weighed.proposal.reserve(proposal.survival.size());
  const std::size_t met =
      std::min({positions_.size(), draft.survival.size(), proposal.survival.size()});
  double drafted = 1.0;
  double proposed = 1.0;
  for (std::size_t at = 0; at < met; ++at) {
    const Position& position = positions_[at];
    const Comparison comparison{
        draft.tokens[at],
        proposal.tokens[at],
        {1.0, logit(step(draft.survival, at)), logit(step(proposal.survival, at))}};
    weighed.comparisons.push_back(comparison);
    const bool agree = comparison.draft == comparison.proposal;
    if (agree) {
      drafted *= position.both.chance(comparison.features);
      proposed = drafted;
    } else {
      const double mine = position.draft.chance(comparison.features);
      const double other = position.proposal.chance(comparison.features);
      const double all = std::max(1.0, mine + other);  // at most one of them is right
      drafted *= mine / all;
      proposed *= other / all;
    }
    weighed.draft.push_back(drafted);
    weighed.proposal.push_back(proposed);
    if (!agree) break;
  }
  append_rest(draft.survival, drafted, weighed.draft);
  append_rest(proposal.survival, proposed, weighed.proposal);
  return weighed;
}

void SecondOpinion::learn(std::span<const Comparison> comparisons,
                          std::span<const std::int32_t> sampled) {
  const std::size_t known = std::min(comparisons.size(), sampled.size());
  for (std::size_t at = 0; at < known; ++at) {
    const Comparison& comparison = comparisons[at];
    Position& position = positions_[at];
    if (comparison.draft == comparison.proposal) {
      position.both.learn(comparison.features, comparison.draft == sampled[at]);
    } else {
      position.draft.learn(comparison.features, comparison.draft == sampled[at]);
      position.proposal.learn(comparison.features, comparison.proposal == sampled[at]);
    }
    if (comparison.proposal != sampled[at]) return;
  }
}

}  // namespace specgate::policy
