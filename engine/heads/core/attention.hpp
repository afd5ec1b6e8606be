// Attention of a head to earlier positions of its text (engine/heads/attention.py, adr/0017).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "matrix.hpp"
#include "norm.hpp"

namespace specgate::heads {

// The entries that a row may attend to, each with all heads. The first entry is empty: zeros, and
// no token.
struct Seen {
  const float* keys;  // (entries, heads, head size), and values likewise
  const float* values;
  const std::int64_t* tokens;  // target ids
  std::size_t entries;
};

// Attention with the weights of one draft position.
class Attention {
 public:
  // `sharpness` is the factor of the cosine between query and key, `sink` the score of the empty
  // entry; both have one number for each head.
  Attention(Norm norm, Matrix query, Matrix leave, std::vector<float> sharpness,
            std::vector<float> sink);

  std::size_t heads() const { return sharpness_.size(); }
  std::size_t size() const { return query_.out(); }  // of all heads

  // Adds to each of the sums, (rows, inner), the result of its row's attention.
  void attend(float* sums, std::size_t rows, const Seen* seen) const;

 private:
  // Computes the result of one head of one row.
  void look(const float* query, std::size_t head, const Seen& seen, float* found) const;

  Norm norm_;
  Matrix query_;
  Matrix leave_;
  std::vector<float> sharpness_;
  std::vector<float> sink_;
};

// Computes the key and value of a text position from its sum.
class Recorder {
 public:
  // `linear` projects to keys and then values, with as many heads each.
  Recorder(Norm norm, Matrix linear, std::size_t heads);

  // Width of a row's keys, and of its values.
  std::size_t size() const { return linear_.out() / 2; }

  // Writes keys, of length 1, and values of the sums, (rows, inner): (rows, heads, head size) each.
  void record(const float* sums, std::size_t rows, float* keys, float* values) const;

 private:
  Norm norm_;
  Matrix linear_;
  std::size_t heads_;
};

}  // namespace specgate::heads
