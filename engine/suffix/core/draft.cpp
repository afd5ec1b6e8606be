#include "draft.hpp"

#include <algorithm>
#include <cmath>

namespace specgate::suffix {

namespace {

struct Ballot {
  Token token;
  float weight;
};

// The matches that still agree with what was drafted.
class Voters {
 public:
  Voters(const Matcher& matcher, const Store* own, std::span<const Token> drafted)
      : own_(own), drafted_(drafted.data()) {
    for (const Match& match : matcher) live_[static_cast<std::size_t>(size_++)] = match;
  }

  int size() const { return size_; }

  // Count the votes; the winner's token is kGap when nobody has one.
  Ballot count(const Model& model, float& total) {
    int ballots = 0;
    total = 0.0f;
    for (int i = 0; i < size_; ++i) {
      const Match& match = live_[static_cast<std::size_t>(i)];
      const Token token = votes_[static_cast<std::size_t>(i)] = next_of(match);
      if (token == kGap) continue;
      const float weight = model.reliability.weight(match.origin, match.length);
      total += weight;
      int at = 0;
      while (at < ballots && ballots_[static_cast<std::size_t>(at)].token != token) ++at;
      if (at == ballots) ballots_[static_cast<std::size_t>(ballots++)] = {token, 0.0f};
      ballots_[static_cast<std::size_t>(at)].weight += weight;
    }
    Ballot best{kGap, -1.0f};
    for (int i = 0; i < ballots; ++i) {
      const Ballot& ballot = ballots_[static_cast<std::size_t>(i)];
      if (ballot.weight > best.weight) best = ballot;
    }
    return best;
  }

  // What the vote for `token` looked like.
  void describe(Token token, const Reliability& reliability, Vote& vote) const {
    vote.matches = size_;
    for (int i = 0; i < size_; ++i) {
      const Match& match = live_[static_cast<std::size_t>(i)];
      if (votes_[static_cast<std::size_t>(i)] != token) {
        vote.rival_length = std::max<int>(vote.rival_length, match.length);
        continue;
      }
      const float log_odds = reliability.log_odds(match.origin, match.length);
      vote.log_odds = vote.voters == 0 ? log_odds : std::max(vote.log_odds, log_odds);
      ++vote.voters;
      vote.match_length = std::max<int>(vote.match_length, match.length);
      vote.own |= is_own(match.origin);
      vote.aligned |= is_aligned(match.origin);
    }
  }

  // Those that voted for `token` go on.
  void follow(Token token) {
    int kept = 0;
    for (int i = 0; i < size_; ++i) {
      if (votes_[static_cast<std::size_t>(i)] != token) continue;
      Match match = live_[static_cast<std::size_t>(i)];
      ++match.next;
      match.length = static_cast<std::uint8_t>(std::min(match.length + 1, kLongestMatch));
      live_[static_cast<std::size_t>(kept++)] = match;
    }
    size_ = kept;
  }

 private:
  // The request's own text goes on with what is drafted, so that a loop can be followed.
  Token next_of(const Match& match) const {
    if (match.has_next()) return match.vote();
    if (match.store == own_) return drafted_[match.next - own_->text().end()];
    return kGap;
  }

  const Store* own_;
  const Token* drafted_;
  std::array<Match, Matcher::kMost> live_;
  std::array<Token, Matcher::kMost> votes_;
  std::array<Ballot, Matcher::kMost> ballots_;
  int size_ = 0;
};

}  // namespace

void vote(const Matcher& matcher, const Store* own, Token newest, const Model& model,
          const Fortune& fortune, float least_survival, Draft& draft, Pending& pending) {
  Voters voters(matcher, own, draft.tokens);
  const int most = static_cast<int>(draft.tokens.size());
  float survival = 1.0f;
  float share = 1.0f;
  Vote ballot{};
  ballot.previous = newest;
  pending.scored = 0;
  draft.length = 0;
  while (draft.length < most && voters.size() > 0) {
    float total = 0.0f;
    const Ballot best = voters.count(model, total);
    if (best.token == kGap) break;
    Vote vote{};
    vote.share = best.weight / total;
    vote.depth = draft.length;
    vote.log_survival = ballot.log_survival;
    vote.token = best.token;
    vote.previous = ballot.previous;
    voters.describe(best.token, model.reliability, vote);
    vote.first_length = draft.length == 0 ? vote.match_length : ballot.first_length;

    const Features features = SurvivalModel::features(vote, fortune);
    if (pending.scored < kScored) {
      pending.features[static_cast<std::size_t>(pending.scored)] = features;
      pending.tokens[static_cast<std::size_t>(pending.scored)] = best.token;
      ++pending.scored;
    }
    const float probability = 1.0f / (1.0f + std::exp(-model.survival.score(features)));
    survival *= probability;
    if (survival < least_survival) break;
    share *= vote.share;
    const auto at = static_cast<std::size_t>(draft.length++);
    draft.tokens[at] = best.token;
    draft.survival[at] = survival;
    draft.share[at] = share;
    ballot.first_length = vote.first_length;
    ballot.log_survival = std::log(survival);
    ballot.previous = best.token;
    voters.follow(best.token);
  }
  pending.drafted = draft.length;
}

}  // namespace specgate::suffix
