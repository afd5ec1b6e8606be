// A linear layer with int8 weights, for few rows: x W^T.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace specgate::heads {

// For a few rows it is reading the weight that takes the time, so it is int8: symmetric, with a
// scale for each of its rows. Inputs become integers of some 15 bits, which loses next to nothing,
// and all products are added up exactly.
class Matrix {
 public:
  // Both are the caller's, and outlive this: (out, in) row by row, and (out,).
  Matrix(const std::int8_t* values, const float* scales, std::size_t out, std::size_t in);

  std::size_t out() const { return out_; }
  std::size_t in() const { return in_; }

  // Writes (rows, out) for inputs of shape (rows, in).
  void multiply(const float* inputs, std::size_t rows, float* outputs) const;

 private:
  void multiply_block(const float* inputs, std::size_t rows, float* outputs) const;

  const std::int8_t* values_;
  const float* scales_;
  std::size_t out_;
  std::size_t in_;
  float largest_;  // an input may be, as an integer, that no sum of products overflows
};

}  // namespace specgate::heads
