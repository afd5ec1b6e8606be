#include "gated_head.hpp"

#include <algorithm>
#include <utility>

#include "lanes.hpp"

namespace specgate::heads {
namespace {

float silu(float x) { return x / (1.0f + exponential(-x)); }

// Returns the products of a state with some rows of a table.
std::vector<float> score(const Table& table, const float* state, const Ids& rows) {
  std::vector<float> row(table.width()), scores;
  for (const std::int64_t at : rows) {
    table.read_row(at, row.data());
    scores.push_back(dot(row.data(), state, table.width()));
  }
  return scores;
}

}  // namespace

Cell::Cell(Norm norm, Matrix enter, Matrix leave, Norm state_norm)
    : norm_(std::move(norm)),
      enter_(enter),
      leave_(leave),
      state_norm_(std::move(state_norm)) {}

void Cell::step(float* sums, std::size_t rows) const {
  const std::size_t inner = leave_.out(), width = leave_.in();
  std::vector<float> normed(rows * inner), both(rows * 2 * width), gated(rows * width);
  norm_.apply(sums, rows, normed.data());
  enter_.multiply(normed.data(), rows, both.data());
#pragma omp parallel for schedule(static)
  for (std::size_t row = 0; row < rows; ++row) {
    const float* const gate = both.data() + row * 2 * width;
    for (std::size_t i = 0; i < width; ++i) {
      gated[row * width + i] = silu(gate[i]) * gate[width + i];
    }
  }
  leave_.multiply(gated.data(), rows, normed.data());
  for (std::size_t i = 0; i < rows * inner; ++i) sums[i] += normed[i];
  state_norm_.apply(sums, rows, sums);
}

std::vector<float> Position::add_up(const std::vector<float>& states, const Ids& tokens) const {
  const std::size_t inner = project.out();
  std::vector<float> sums(tokens.size() * inner);
  project.multiply(states.data(), tokens.size(), sums.data());
  for (std::size_t row = 0; row < tokens.size(); ++row) {
    table.add_row(tokens[row], scale, sums.data() + row * inner);
  }
  return sums;
}

GatedHead::GatedHead(std::vector<Position> positions, std::optional<Norm> input_norm,
                     std::optional<Recorder> recorder, Ids ids)
    : positions_(std::move(positions)),
      input_norm_(std::move(input_norm)),
      recorder_(std::move(recorder)),
      ids_(std::move(ids)) {
  if (!first().extension || ids_.empty()) return;
  is_left_out_.assign(first().extension->rows(), true);
  for (const std::int64_t id : ids_) is_left_out_.at(static_cast<std::size_t>(id)) = false;
}

std::vector<Ids> GatedHead::left_out(std::size_t rows, const Seen* seen) const {
  std::vector<Ids> more(rows);
  if (is_left_out_.empty() || seen == nullptr) return more;
  for (std::size_t row = 0; row < rows; ++row) {
    Ids& tokens = more[row];
    for (std::size_t entry = 1; entry < seen[row].entries; ++entry) {
      const std::int64_t token = seen[row].tokens[entry];
      const auto index = static_cast<std::size_t>(token);
      if (index < is_left_out_.size() && is_left_out_[index]) tokens.push_back(token);
    }
    std::sort(tokens.begin(), tokens.end());
    tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
  }
  return more;
}

std::int64_t GatedHead::target_id(std::int64_t index, const Ids& more) const {
  if (ids_.empty()) return index;
  const auto at = static_cast<std::size_t>(index);
  return at < ids_.size() ? ids_[at] : more[at - ids_.size()];
}

void GatedHead::record(std::vector<float> states, const Ids& tokens, float* keys,
                       float* values) const {
  enter(states);
  const std::vector<float> sums = first().add_up(states, tokens);
  recorder_->record(sums.data(), tokens.size(), keys, values);
}

void GatedHead::enter(std::vector<float>& states) const {
  if (input_norm_) input_norm_->apply(states.data(), states.size() / hidden_size(), states.data());
}

std::vector<GatedHead::Likeliest> GatedHead::advance(std::size_t at, std::vector<float>& states,
                                                     const Ids& tokens, const Seen* seen,
                                                     const std::vector<Ids>& more) const {
  const Position& position = positions_[std::min(at, positions_.size() - 1)];
  const std::size_t rows = tokens.size(), count = position.score.out();
  states = position.add_up(states, tokens);
  if (position.attention && seen != nullptr) position.attention->attend(states.data(), rows, seen);
  position.cell.step(states.data(), rows);
  std::vector<float> logits(rows * count);
  position.score.multiply(states.data(), rows, logits.data());
  std::vector<Likeliest> next(rows);
#pragma omp parallel for schedule(static)
  for (std::size_t row = 0; row < rows; ++row) {
    std::vector<float> beside;
    if (position.extension) {
      const float* const state = states.data() + row * position.score.in();
      beside = score(*position.extension, state, more[row]);
    }
    next[row] = likeliest(logits.data() + row * count, count, beside);
  }
  return next;
}

// The likeliest token, and its probability in a softmax over `logits` and `more`.
GatedHead::Likeliest GatedHead::likeliest(const float* logits, std::size_t count,
                                          const std::vector<float>& more) {
  const float* top = std::max_element(logits, logits + count);
  std::int64_t index = top - logits;
  const auto beside = std::max_element(more.begin(), more.end());
  if (beside != more.end() && *beside > *top) {
    top = &*beside;
    index = static_cast<std::int64_t>(count) + (beside - more.begin());
  }
  float lanes[kLanes] = {};
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      lanes[lane] += exponential(logits[i + lane] - *top);
    }
  }
  float total = 0.0f;
  for (const float lane : lanes) total += lane;
  for (; i < count; ++i) total += exponential(logits[i] - *top);
  for (const float logit : more) total += exponential(logit - *top);
  return {index, 1.0f / total};
}

}  // namespace specgate::heads
