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

  // Returns the sums of projected states and embedded tokens, (rows, inner).
  std::vector<float> add_up(const std::vector<float>& states,
                            const std::vector<std::int64_t>& tokens) const;
};

class GatedHead {
 public:
  // `positions` of the first ones, at least one; later ones are like the last. `input_norm` of the
  // target's states, where the head scales them.
  GatedHead(std::vector<Position> positions, std::optional<Norm> input_norm,
            std::optional<Recorder> recorder);

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
  //   hidden: The target's states, one for each row, bfloat16.
  //   tokens: What was drawn from them.
  //   length: Tokens to draft.
  //   seen: What each row may look at; null for a head without a window.
  //   each: Called with the row, the place of its next token in the head's vocabulary, and the
  //     probability of that.
  template <class Each>
  void draft(const std::vector<const std::uint16_t*>& hidden, std::vector<std::int64_t> tokens,
             std::size_t length, const Seen* seen, Each each) const {
    std::vector<float> states = enter(hidden);
    for (std::size_t at = 0; at < length; ++at) {
      const std::vector<Likeliest> next = advance(at, states, tokens, seen);
      for (std::size_t row = 0; row < next.size(); ++row) {
        tokens[row] = next[row].place;
        each(row, next[row].place, next[row].probability);
      }
    }
  }

  // Writes keys and values of rows, as `Recorder::record` does; only for a head that has one.
  void record(const std::vector<const std::uint16_t*>& hidden,
              const std::vector<std::int64_t>& tokens, float* keys, float* values) const;

 private:
  struct Likeliest {
    std::int64_t place;
    float probability;
  };

  std::vector<float> enter(const std::vector<const std::uint16_t*>& hidden) const;
  // Makes the next states, and says what is likeliest then.
  std::vector<Likeliest> advance(std::size_t at, std::vector<float>& states,
                                 const std::vector<std::int64_t>& tokens, const Seen* seen) const;
  static Likeliest likeliest(const float* logits, std::size_t count);

  std::vector<Position> positions_;
  std::optional<Norm> input_norm_;
  std::optional<Recorder> recorder_;
};

}  // namespace specgate::heads
