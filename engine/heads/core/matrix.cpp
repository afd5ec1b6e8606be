#include "matrix.hpp"

#include <omp.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace specgate::heads {
namespace {

constexpr std::size_t kBlock = 16;  // inputs that fit into the L1 cache beside a row of the weight
constexpr float kNoFraction = 12582912.0f;  // 1.5 * 2^23

// Compilers recognise the inner loop and use integer multiply-add instructions. A row of the weight
// stays in the L1 cache for all inputs.
void multiply_anywhere(const std::int8_t* weight, std::size_t out, std::size_t in,
                       const Integer* inputs, std::size_t rows, std::int32_t* sums) {
  for (std::size_t o = 0; o < out; ++o, weight += in) {
    for (std::size_t row = 0; row < rows; ++row) {
      const Integer* const input = inputs + row * in;
      std::int32_t sum = 0;
      for (std::size_t i = 0; i < in; ++i) sum += static_cast<std::int32_t>(input[i]) * weight[i];
      sums[o * rows + row] = sum;
    }
  }
}

// Rounds an input to integers of at most `largest`; returns the scale. An input that is not finite
// counts as zeros, which only makes a bad draft.
float quantise(const float* input, std::size_t in, float largest, Integer* integers) {
  float top = 0.0f;
  bool finite = true;
  for (std::size_t i = 0; i < in; ++i) {
    const float size = std::fabs(input[i]);
    finite &= size <= std::numeric_limits<float>::max();
    top = std::max(top, size);
  }
  if (!finite || top == 0.0f) {
    std::fill_n(integers, in, Integer{0});
    return 0.0f;
  }
  const float factor = largest / top;
  for (std::size_t i = 0; i < in; ++i) {
    // The sum has no bits left for a fraction, so it is rounded to the nearest integer.
    integers[i] = static_cast<Integer>(input[i] * factor + kNoFraction - kNoFraction);
  }
  return top / largest;
}

}  // namespace

std::vector<MatrixKernel> find_matrix_kernels() {
  std::vector<MatrixKernel> found;
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512vnni")) {
    found.push_back({"avx512_vnni", multiply_vnni});
  }
  if (__builtin_cpu_supports("avx2")) found.push_back({"avx2", multiply_avx2});
#endif
  found.push_back({"any", multiply_anywhere});
  return found;
}

Matrix::Matrix(const std::int8_t* values, const float* scales, std::size_t out, std::size_t in,
               const MatrixKernel& kernel)
    : kernel_(kernel),
      values_(values),
      scales_(scales),
      out_(out),
      in_(in),
      largest_(static_cast<float>(
          std::min<std::size_t>(std::numeric_limits<Integer>::max(),
                                std::numeric_limits<std::int32_t>::max() / (128 * in)))) {}

void Matrix::multiply(const float* inputs, std::size_t rows, float* outputs) const {
  for (std::size_t row = 0; row < rows; row += kBlock) {
    multiply_block(inputs + row * in_, std::min(kBlock, rows - row), outputs + row * out_);
  }
}

void Matrix::multiply_block(const float* inputs, std::size_t rows, float* outputs) const {
  thread_local std::vector<Integer> kept_integers;
  thread_local std::vector<std::int32_t> kept_sums;
  kept_integers.resize(rows * in_);
  kept_sums.resize(rows * out_);
  Integer* const integers = kept_integers.data();
  std::int32_t* const sums = kept_sums.data();
  float units[kBlock];
  for (std::size_t row = 0; row < rows; ++row) {
    units[row] = quantise(inputs + row * in_, in_, largest_, integers + row * in_);
  }
  const auto parts = static_cast<std::size_t>(omp_get_max_threads());
#pragma omp parallel for schedule(static)
  for (std::size_t part = 0; part < parts; ++part) {
    const std::size_t begin = out_ * part / parts, end = out_ * (part + 1) / parts;
    kernel_.multiply(values_ + begin * in_, end - begin, in_, integers, rows, sums + begin * rows);
    for (std::size_t row = 0; row < rows; ++row) {
      for (std::size_t o = begin; o < end; ++o) {
        outputs[row * out_ + o] = static_cast<float>(sums[o * rows + row]) * units[row] * scales_[o];
      }
    }
  }
}

}  // namespace specgate::heads
