#include "draft.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace specgate::suffix {

namespace {

// Tokens that are looked at closely at each place, and from which part of the first one's weight:
// adr/0012.
constexpr std::size_t kCandidates = 4;
constexpr float kRivalWeight = 0.02f;

// What the calibration is told of a smaller one: the logarithm of one that is rounded to zero would
// spoil every weight that learns from it.
constexpr float kLeastSurvival = 1e-6f;

float log_of(float survival) { return std::log(std::max(survival, kLeastSurvival)); }

struct Ballot {
  Token token = kGap;
  float weight = 0.0f;
};

// The tokens with most votes, in that order; kGap where there are not so many.
struct Count {
  std::array<Ballot, kCandidates> ballots;
  float total = 0.0f;
  int tokens = 0;  // that were voted for

  void add(const Ballot& ballot) {
    std::size_t at = kCandidates;
    while (at > 0 && ballot.weight > ballots[at - 1].weight) --at;
    if (at == kCandidates) return;
    std::move_backward(ballots.begin() + static_cast<std::ptrdiff_t>(at), ballots.end() - 1,
                       ballots.end());
    ballots[at] = ballot;
  }
};

// The matches that still agree with what was drafted.
class Voters {
 public:
  Voters(const Matcher& matcher, const Ahead& ahead) : ahead_(ahead) {
    for (const Match& match : matcher) live_[static_cast<std::size_t>(size_++)] = match;
  }

  int size() const { return size_; }

  Count count(const Reliability& reliability) {
    std::array<Ballot, Matcher::kMost> ballots;
    std::size_t tokens = 0;
    Count count;
    for (std::size_t i = 0; i < static_cast<std::size_t>(size_); ++i) {
      const Token token = votes_[i] = ahead_.vote_of(live_[i]);
      if (token == kGap) continue;
      const float weight = reliability.weight(live_[i].kind, live_[i].length);
      count.total += weight;
      std::size_t at = 0;
      while (at < tokens && ballots[at].token != token) ++at;
      if (at == tokens) ballots[tokens++] = {token, 0.0f};
      ballots[at].weight += weight;
    }
    for (std::size_t i = 0; i < tokens; ++i) count.add(ballots[i]);
    count.tokens = static_cast<int>(tokens);
    return count;
  }

  // Fill in who voted for `vote.token`, and against it.
  void describe(const Reliability& reliability, Vote& vote) const {
    vote.matches = size_;
    for (std::size_t i = 0; i < static_cast<std::size_t>(size_); ++i) {
      const Match& match = live_[i];
      if (votes_[i] != vote.token) {
        vote.rival_length = std::max<int>(vote.rival_length, match.length);
        continue;
      }
      vote.weight = std::max(vote.weight, reliability.weight(match.kind, match.length));
      ++vote.voters;
      vote.match_length = std::max<int>(vote.match_length, match.length);
      vote.own |= is_own(match.kind.origin);
      vote.aligned |= is_aligned(match.kind.origin);
    }
  }

  // Those that voted for `token` go on.
  void follow(Token token) {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < static_cast<std::size_t>(size_); ++i) {
      if (votes_[i] != token) continue;
      Match match = live_[i];
      ++match.next;
      match.length = static_cast<std::uint8_t>(std::min(match.length + 1, kLongestMatch));
      live_[kept++] = match;
    }
    size_ = static_cast<int>(kept);
  }

  bool has_one_in(const Store* store) const {
    return std::any_of(live_.begin(), live_.begin() + size_,
                       [=](const Match& match) { return match.store == store; });
  }

 private:
  Ahead ahead_;
  std::array<Match, Matcher::kMost> live_;
  std::array<Token, Matcher::kMost> votes_;
  int size_ = 0;
};

// What was drafted so far.
struct Path {
  Token last;
  int before = 0;  // tokens that another drafter proposed
  int length = 0;  // behind those
  float log_survival = 0.0f;
  float survival = 1.0f;
  float share = 1.0f;
};

struct Candidate {
  Guess guess;
  float share = 0.0f;
};

// Without its score.
Candidate look_at(const Ballot& ballot, const Count& count, const Voters& voters, const Path& path,
                  const Model& model, const Fortune& fortune) {
  Vote vote{};
  vote.token = ballot.token;
  vote.share = ballot.weight / count.total;
  vote.tokens = count.tokens;
  vote.depth = path.before + path.length;
  vote.log_survival = path.log_survival;
  vote.previous = path.last;
  voters.describe(model.reliability, vote);
  const Features features = SurvivalModel::features(vote, fortune);
  model.survival.prefetch(features);
  return {{vote.token, 0.0f, features}, vote.share};
}

}  // namespace

void vote(const Matcher& matcher, const Sources& sources, const Onset& onset, const Model& model,
          const Fortune& fortune, Price price, Draft& draft, Pending& pending) {
  Voters voters(matcher, {sources.own, onset.proposed, draft.tokens.data()});
  const int most = static_cast<int>(draft.tokens.size());
  Path path{.last = onset.newest,
            .before = static_cast<int>(onset.proposed.size()),
            .log_survival = log_of(onset.survival),
            .survival = onset.survival};
  pending.scored = 0;
  draft.predicted = 0;
  bool is_predicted = sources.prediction != nullptr;
  while (path.length < most && voters.size() > 0) {
    const Count count = voters.count(model.reliability);
    if (count.ballots[0].token == kGap) break;
    std::array<Candidate, kCandidates> candidates;
    std::size_t able = 0;
    for (const Ballot& ballot : count.ballots) {
      if (able > 0 && ballot.weight <= kRivalWeight * count.ballots[0].weight) break;
      candidates[able++] = look_at(ballot, count, voters, path, model, fortune);
    }
    const Candidate* best = nullptr;
    const Candidate* second = nullptr;
    for (Candidate& other : std::span(candidates).first(able)) {
      other.guess.score = model.survival.score(other.guess.features);
      if (best == nullptr || other.guess.score > best->guess.score) {
        second = std::exchange(best, &other);
      } else if (second == nullptr || other.guess.score > second->guess.score) {
        second = &other;
      }
    }
    const Candidate& taken = *best;
    const Guess rival = second == nullptr ? Guess{} : second->guess;
    if (pending.scored < kScored) {
      pending.choices[static_cast<std::size_t>(pending.scored++)] = {taken.guess, rival};
    }
    const float survival = path.survival / (1.0f + std::exp(-taken.guess.score));
    if (survival < price.at(path.before + path.length)) break;
    path.survival = survival;
    path.log_survival = log_of(survival);
    path.share *= taken.share;
    path.last = taken.guess.token;
    const auto at = static_cast<std::size_t>(path.length++);
    draft.tokens[at] = path.last;
    draft.survival[at] = path.survival;
    draft.share[at] = path.share;
    voters.follow(path.last);
    is_predicted = is_predicted && voters.has_one_in(sources.prediction);
    if (is_predicted) ++draft.predicted;
  }
  draft.length = pending.drafted = path.length;
}

}  // namespace specgate::suffix
