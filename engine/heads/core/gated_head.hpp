// A gated head on a CPU: drafts, or computes the entries of its window, in one call.
//
// Equivalent to the torch modules in engine/heads (stage.py, cells.py, attention.py), without the
// fixed costs of many small operations on one or two rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "attention.hpp"
#include "matrix.hpp"
#include "norm.hpp"
#include "table.hpp"

namespace specgate::heads {

// Token ids, of the target or of the head's vocabulary.
using Ids = std::vector<std::int64_t>;

// The residual layer from a sum to the next state: norm'(a + D(silu(G n) * (U n))).
class Cell {
 public:
  // `enter` is G stacked on U; all widths must match.
  Cell(Norm norm, Matrix enter, Matrix leave, Norm state_norm);

  // Replaces sums by states, both (rows, inner).
  void step(float* sums, std::size_t rows) const;

 private:
  Norm norm_;
  Matrix enter_;
  Matrix leave_;
  Norm state_norm_;
};

// The parts of a draft position; see `Stage` in stage.py.
struct Position {
  Matrix project;
  Table table;
  float scale;  // of embeddings
  std::optional<Attention> attention;
  Cell cell;
  Matrix score;
  // Scores tokens outside the vocabulary. If present, `table` has a row for each target token.
  std::optional<Table> extension;

  // Returns the sums of projected states and embedded tokens, (rows, inner).
  std::vector<float> add_up(const std::vector<float>& states, const Ids& tokens) const;
};

class GatedHead {
 public:
  // `positions` are the first ones, at least one; later positions use the last. `input_norm` is for
  // heads that scale the target's states. `ids` are the vocabulary's target ids, rising; empty if
  // the ids are the same.
  GatedHead(std::vector<Position> positions, std::optional<Norm> input_norm,
            std::optional<Recorder> recorder, Ids ids);

  const Position& first() const { return positions_.front(); }
  const std::optional<Recorder>& recorder() const { return recorder_; }
  std::size_t hidden_size() const { return first().project.in(); }
  // Whether a state leads to a further one, so that the head can draft more than one token.
  bool goes_on() const {
    const Matrix& project = positions_.back().project;
    return project.in() == project.out();
  }

  // Drafts greedily.
  //
  // Args:
  //   states: The target's, (rows, hidden_size).
  //   tokens: The token that was sampled from each.
  //   length: Tokens to draft.
  //   seen: The entries that each row may attend to; null for a head without a window.
  //   each: Called with the row, the target id of its next token, and that token's probability.
  template <class Each>
  void draft(std::vector<float> states, Ids tokens, std::size_t length, const Seen* seen,
             Each each) const {
    enter(states);
    const std::vector<Ids> more = left_out(tokens.size(), seen);
    for (std::size_t at = 0; at < length; ++at) {
      const std::vector<Likeliest> next = advance(at, states, tokens, seen, more);
      for (std::size_t row = 0; row < next.size(); ++row) {
        const std::int64_t token = target_id(next[row].index, more[row]);
        tokens[row] = first().extension ? token : next[row].index;
        each(row, token, next[row].probability);
      }
    }
  }

  // Writes keys and values as `Recorder::record` does; requires a recorder.
  void record(std::vector<float> states, const Ids& tokens, float* keys, float* values) const;

 private:
  struct Likeliest {
    std::int64_t index;  // into the vocabulary, followed by the tokens scored beside it
    float probability;
  };

  // Scales the target's states, if the head is configured to.
  void enter(std::vector<float>& states) const;
  // Computes the next states, and the likeliest token of each.
  std::vector<Likeliest> advance(std::size_t at, std::vector<float>& states,
                                 const Ids& tokens, const Seen* seen,
                                 const std::vector<Ids>& more) const;
  // The tokens that each row may draft beyond the vocabulary: those it sees, without repeats.
  std::vector<Ids> left_out(std::size_t rows, const Seen* seen) const;
  std::int64_t target_id(std::int64_t index, const Ids& more) const;
  static Likeliest likeliest(const float* logits, std::size_t count,
                             const std::vector<float>& more);

  std::vector<Position> positions_;
  std::optional<Norm> input_norm_;
  std::optional<Recorder> recorder_;
  Ids ids_;
  std::vector<bool> is_left_out_;  // by target id; only for a head with an extension
};

}  // namespace specgate::heads
