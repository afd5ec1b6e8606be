// A linear layer with int8 weights: rows times W^T, in float32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace specgate::heads {

// Symmetric int8, with a scale for each row of the weight. Reading the weight is what takes the
// time of a few rows: an int8 one is read twice as fast as a bfloat16 one. Borrows its memory.
struct Matrix {
  const std::int8_t* values = nullptr;  // (out, in), row-major
  const float* scales = nullptr;        // (out,)
  std::size_t out = 0;
  std::size_t in = 0;

  // Writes (rows, out) for inputs of shape (rows, in).
  void multiply(const float* inputs, std::size_t rows, float* outputs) const;
};

}  // namespace specgate::heads
