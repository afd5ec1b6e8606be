// A linear layer with int8 weights, for few rows: x W^T.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace specgate::heads {

using Integer = std::int16_t;  // an input

// Sums the products of inputs (rows, in) with a weight (out, in), for one instruction set: to sums
// of shape (out, rows). They are exact, so all kernels give the same.
struct MatrixKernel {
  const char* name;
  void (*multiply)(const std::int8_t* weight, std::size_t out, std::size_t in,
                   const Integer* inputs, std::size_t rows, std::int32_t* sums);
};

// For AVX2, and for AVX-512 with VNNI; only in builds for x86-64.
void multiply_avx2(const std::int8_t* weight, std::size_t out, std::size_t in,
                   const Integer* inputs, std::size_t rows, std::int32_t* sums);
void multiply_vnni(const std::int8_t* weight, std::size_t out, std::size_t in,
                   const Integer* inputs, std::size_t rows, std::int32_t* sums);

// The kernels of this processor, best first.
std::vector<MatrixKernel> find_matrix_kernels();

// For few rows, reading the weight dominates the time, so it is stored as int8: symmetric, with one
// scale per row. Inputs are rounded to integers of about 15 bits, a negligible error, and all
// products are summed exactly.
class Matrix {
 public:
  // Borrows both, which must outlive this: (out, in) row-major, and (out,).
  Matrix(const std::int8_t* values, const float* scales, std::size_t out, std::size_t in,
         const MatrixKernel& kernel);

  std::size_t out() const { return out_; }
  std::size_t in() const { return in_; }

  // Writes (rows, out) for inputs of shape (rows, in).
  void multiply(const float* inputs, std::size_t rows, float* outputs) const;

 private:
  void multiply_block(const float* inputs, std::size_t rows, float* outputs) const;

  MatrixKernel kernel_;
  const std::int8_t* values_;
  const float* scales_;
  std::size_t out_;
  std::size_t in_;
  float largest_;  // largest input as an integer such that no sum of products overflows
};

}  // namespace specgate::heads
