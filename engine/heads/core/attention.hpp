// Attention of a head to earlier rows of its text (engine/heads/attention.py, adr/0017).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "matrix.hpp"
#include "norm.hpp"

namespace specgate::heads {

// What a row may look at: entries in order, of each all heads. The first entry is nothing: zeros,
// and no token.
struct Seen {
  const float* keys;  // (entries, heads, head size), and values likewise
  const float* values;
  const std::int64_t* tokens;  // of the target
  std::size_t entries;
};

// Looks for entries, with its weights.
class Attention {
 public:
  // `sharpness` is what the cosine between query and key is multiplied with, `sink` the score of
  // finding nothing; both have one number for each of the heads.
  Attention(Norm norm, Matrix query, Matrix leave, std::vector<float> sharpness,
            std::vector<float> sink);

  std::size_t heads() const { return sharpness_.size(); }
  std::size_t size() const { return query_.out(); }  // of all heads

  // Adds to each sum, (rows, inner), what its row found.
  void attend(float* sums, std::size_t rows, const Seen* seen) const;

 private:
  // Adds up what one head of one row found.
  void look(const float* query, std::size_t head, const Seen& seen, float* found) const;

  Norm norm_;
  Matrix query_;
  Matrix leave_;
  std::vector<float> sharpness_;
  std::vector<float> sink_;
};

// Makes key and value of a row's sum.
class Recorder {
 public:
  // `linear` makes keys and behind them values, with as many heads each.
  Recorder(Norm norm, Matrix linear, std::size_t heads);

  // Of a row's keys, and of its values.
  std::size_t size() const { return linear_.out() / 2; }

  // Writes keys, of length 1, and values of the sums, (rows, inner): (rows, heads, head size) each.
  void record(const float* sums, std::size_t rows, float* keys, float* values) const;

 private:
  Norm norm_;
  Matrix linear_;
  std::size_t heads_;
};

}  // namespace specgate::heads
