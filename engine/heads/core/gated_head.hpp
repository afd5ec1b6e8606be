// A gated head at work on a CPU: a whole draft, or the entries of its window, in one call.
//
// The same as the modules in engine/heads compute (stage.py, cells.py, attention.py), without the
// many small operations that there are for a row or two.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "attention.hpp"
#include "bfloat16.hpp"
#include "matrix.hpp"
#include "norm.hpp"

namespace specgate::heads {

// Of tokens, of the target or of the head's vocabulary.
using Ids = std::vector<std::int64_t>;

// The residual layer from a sum to the next state: norm'(a + D(silu(G n) * (U n))).
class Cell {
 public:
  // `enter` is G over U; all widths fit.
  Cell(Norm norm, Matrix enter, Matrix leave, Norm state_norm);

  // Makes states of sums, both (rows, inner), in place.
  void step(float* sums, std::size_t rows) const;

 private:
  Norm norm_;
  Matrix enter_;
  Matrix leave_;
  Norm state_norm_;
};

// What a position is made of; see `Stage` in stage.py.
struct Position {
  Matrix project;
  Table table;
  float scale;  // of embeddings
  std::optional<Attention> attention;
  Cell cell;
  Matrix score;
  // Scores tokens beside the vocabulary. With it `table` has a row for each token of the target.
  std::optional<Table> extension;

  // Returns the sums of projected states and embedded tokens, (rows, inner).
  std::vector<float> add_up(const std::vector<float>& states, const Ids& tokens) const;
};

class GatedHead {
 public:
  // `positions` of the first ones, at least one; later ones are like the last. `input_norm` of the
  // target's states, where the head scales them. `ids` are the target's of the vocabulary, rising;
  // none where they are the same.
  GatedHead(std::vector<Position> positions, std::optional<Norm> input_norm,
            std::optional<Recorder> recorder, Ids ids);

  const Position& first() const { return positions_.front(); }
  const std::optional<Recorder>& recorder() const { return recorder_; }
  std::size_t hidden_size() const { return first().project.in(); }
  // Whether a state of its own leads to a further one, so that it can draft more than one token.
  bool goes_on() const {
    const Matrix& project = positions_.back().project;
    return project.in() == project.out();
  }

  // Drafts greedily.
  //
  // Args:
  //   states: The target's, (rows, hidden_size).
  //   tokens: What was drawn from them.
  //   length: Tokens to draft.
  //   seen: What each row may look at; null for a head without a window.
  //   each: Called with the row, the target's id of its next token, and the probability of that.
  template <class Each>
  void draft(std::vector<float> states, Ids tokens, std::size_t length, const Seen* seen,
             Each each) const {
    enter(states);
    const std::vector<Ids> more = left_out(tokens.size(), seen);
    for (std::size_t at = 0; at < length; ++at) {
      const std::vector<Likeliest> next = advance(at, states, tokens, seen, more);
      for (std::size_t row = 0; row < next.size(); ++row) {
        const std::int64_t token = target_id(next[row].place, more[row]);
        tokens[row] = first().extension ? token : next[row].place;
        each(row, token, next[row].probability);
      }
    }
  }

  // Writes keys and values of rows, as `Recorder::record` does; only for a head that has one.
  void record(std::vector<float> states, const Ids& tokens, float* keys, float* values) const;

 private:
  struct Likeliest {
    std::int64_t place;  // in the vocabulary, and behind it in what is scored beside it
    float probability;
  };

  // Scales the target's states, where the head wants that.
  void enter(std::vector<float>& states) const;
  // Makes the next states, and says what is likeliest then.
  std::vector<Likeliest> advance(std::size_t at, std::vector<float>& states,
                                 const Ids& tokens, const Seen* seen,
                                 const std::vector<Ids>& more) const;
  // What each row may draft beside the vocabulary: the other tokens that it sees, each once.
  std::vector<Ids> left_out(std::size_t rows, const Seen* seen) const;
  std::int64_t target_id(std::int64_t place, const Ids& more) const;
  static Likeliest likeliest(const float* logits, std::size_t count,
                             const std::vector<float>& more);

  std::vector<Position> positions_;
  std::optional<Norm> input_norm_;
  std::optional<Recorder> recorder_;
  Ids ids_;
  std::vector<bool> is_left_out_;  // of each of the target's tokens; of a head with an extension
};

}  // namespace specgate::heads
