#include "draft.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace specgate::suffix {

namespace {

// At each position at most this many candidates are scored, and only those with more than this
// fraction of the heaviest one's weight (adr/0012).
constexpr std::size_t kCandidates = 4;
constexpr float kRivalWeight = 0.02f;

// Smaller values are clamped: the logarithm of a survival that underflowed to 0 would ruin every
// weight that learns from it.
constexpr float kLeastSurvival = 1e-6f;

float log_of(float survival) { return std::log(std::max(survival, kLeastSurvival)); }

struct Ballot {
  Token token = kGap;
  float weight = 0.0f;
};

// The tokens with the most votes, heaviest first. kGap marks unused entries.
struct Count {
  std::array<Ballot, kCandidates> ballots;
  float total = 0.0f;
  int tokens = 0;  // distinct tokens with a vote

  void add(const Ballot& ballot) {
    std::size_t at = kCandidates;
    while (at > 0 && ballot.weight > ballots[at - 1].weight) --at;
    if (at == kCandidates) return;
    std::move_backward(ballots.begin() + static_cast<std::ptrdiff_t>(at), ballots.end() - 1,
                       ballots.end());
    ballots[at] = ballot;
  }
};

// The matches that still agree with the draft.
class Voters {
 public:
  Voters(const Matcher& matcher, const Lookahead& lookahead) : lookahead_(lookahead) {
    for (const Match& match : matcher) live_[static_cast<std::size_t>(size_++)] = match;
  }

  int size() const { return size_; }

  Count count(const Reliability& reliability) {
    std::array<Ballot, Matcher::kMost> ballots;
    std::size_t tokens = 0;
    Count count;
    for (std::size_t i = 0; i < static_cast<std::size_t>(size_); ++i) {
      const Token token = votes_[i] = lookahead_.vote_of(live_[i]);
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

  // Fills in the evidence for and against `vote.token`.
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
      vote.own |= is_own(match.kind.region);
      vote.aligned |= is_aligned(match.kind.region);
    }
  }

  // Keeps the matches that voted for `token` and moves them one token on.
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
  Lookahead lookahead_;
  std::array<Match, Matcher::kMost> live_;
  std::array<Token, Matcher::kMost> votes_;
  int size_ = 0;
};

// What was drafted so far.
struct Drafted {
  Token last;
  int before = 0;  // tokens that another drafter proposed
  int length = 0;  // tokens drafted after those
  float log_survival = 0.0f;
  float survival = 1.0f;
  float share = 1.0f;
};

struct Candidate {
  ScoredToken scored;
  float share = 0.0f;
};

// Returns the candidate with its features; its score is not computed yet.
Candidate describe(const Ballot& ballot, const Count& count, const Voters& voters,
                     const Drafted& drafted, const Model& model, const RecentOutcomes& outcomes) {
  Vote vote{};
  vote.token = ballot.token;
  vote.share = ballot.weight / count.total;
  vote.tokens = count.tokens;
  vote.depth = drafted.before + drafted.length;
  vote.log_survival = drafted.log_survival;
  vote.previous = drafted.last;
  voters.describe(model.reliability, vote);
  const Features features = SurvivalModel::features(vote, outcomes);
  model.survival.prefetch(features);
  return {{vote.token, 0.0f, features}, vote.share};
}

}  // namespace

void vote(const Matcher& matcher, const Sources& sources, const DraftStart& start,
          const Model& model, const RecentOutcomes& outcomes, float min_survival,
          Continuation& draft, Pending& pending) {
  Voters voters(matcher, {sources.own, start.proposed, draft.tokens.data()});
  const int most = static_cast<int>(draft.tokens.size());
  Drafted drafted{.last = start.newest,
                  .before = static_cast<int>(start.proposed.size()),
                  .log_survival = log_of(start.survival),
                  .survival = start.survival};
  pending.scored = 0;
  draft.predicted = 0;
  bool is_predicted = sources.prediction != nullptr;
  while (drafted.length < most && voters.size() > 0) {
    const Count count = voters.count(model.reliability);
    if (count.ballots[0].token == kGap) break;
    std::array<Candidate, kCandidates> candidates;
    std::size_t size = 0;
    for (const Ballot& ballot : count.ballots) {
      if (size > 0 && ballot.weight <= kRivalWeight * count.ballots[0].weight) break;
      candidates[size++] = describe(ballot, count, voters, drafted, model, outcomes);
    }
    const Candidate* best = nullptr;
    const Candidate* second = nullptr;
    for (Candidate& candidate : std::span(candidates).first(size)) {
      candidate.scored.score = model.survival.score(candidate.scored.features);
      if (best == nullptr || candidate.scored.score > best->scored.score) {
        second = std::exchange(best, &candidate);
      } else if (second == nullptr || candidate.scored.score > second->scored.score) {
        second = &candidate;
      }
    }
    if (pending.scored < kScored) {
      pending.choices[static_cast<std::size_t>(pending.scored++)] = {
          best->scored, second == nullptr ? ScoredToken{} : second->scored};
    }
    const float survival = drafted.survival / (1.0f + std::exp(-best->scored.score));
    if (survival < min_survival) break;
    drafted.survival = survival;
    drafted.log_survival = log_of(survival);
    drafted.share *= best->share;
    drafted.last = best->scored.token;
    const auto at = static_cast<std::size_t>(drafted.length++);
    draft.tokens[at] = drafted.last;
    draft.survival[at] = drafted.survival;
    if (!draft.share.empty()) draft.share[at] = drafted.share;
    voters.follow(drafted.last);
    is_predicted = is_predicted && voters.has_one_in(sources.prediction);
    if (is_predicted) ++draft.predicted;
  }
  draft.length = pending.drafted = drafted.length;
}

}  // namespace specgate::suffix
