#include "matrix.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace specgate::heads {
namespace {

constexpr std::size_t kBlock = 16;  // inputs that fit into the L1 cache beside a row of the weight

// Compilers recognise this loop and use integer multiply-add instructions. A row of the weight
// stays in the L1 cache for all inputs, which pass two at a time.
[[gnu::always_inline]] inline void multiply(const std::int8_t* weight, std::size_t out,
                                            std::size_t in, const Integer* inputs,
                                            std::size_t rows, std::int32_t* sums) {
  for (std::size_t o = 0; o < out; ++o, weight += in) {
    std::size_t row = 0;
    for (; row + 2 <= rows; row += 2) {
      const Integer* const first = inputs + row * in;
      const Integer* const second = first + in;
      std::int32_t sum = 0, other = 0;
      for (std::size_t i = 0; i < in; ++i) {
        sum += static_cast<std::int32_t>(first[i]) * weight[i];
        other += static_cast<std::int32_t>(second[i]) * weight[i];
      }
      sums[row * out + o] = sum;
      sums[(row + 1) * out + o] = other;
    }
    if (row < rows) {
      const Integer* const last = inputs + row * in;
      std::int32_t sum = 0;
      for (std::size_t i = 0; i < in; ++i) {
        sum += static_cast<std::int32_t>(last[i]) * weight[i];
      }
      sums[row * out + o] = sum;
    }
  }
}

void multiply_anywhere(const std::int8_t* weight, std::size_t out, std::size_t in,
                       const Integer* inputs, std::size_t rows, std::int32_t* sums) {
  multiply(weight, out, in, inputs, rows, sums);
}

#if defined(__x86_64__)
// The wheel runs on every x86-64 CPU; most support these.
[[gnu::target("avx2")]] void multiply_avx2(const std::int8_t* weight, std::size_t out,
                                           std::size_t in, const Integer* inputs,
                                           std::size_t rows, std::int32_t* sums) {
  multiply(weight, out, in, inputs, rows, sums);
}

[[gnu::target("avx512f,avx512bw,avx512vl,avx512vnni,prefer-vector-width=512")]] void
multiply_vnni(const std::int8_t* weight, std::size_t out, std::size_t in, const Integer* inputs,
              std::size_t rows, std::int32_t* sums) {
  multiply(weight, out, in, inputs, rows, sums);
}
#endif

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
    integers[i] = static_cast<Integer>(std::nearbyint(input[i] * factor));
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
  thread_local std::vector<Integer> integers;
  thread_local std::vector<std::int32_t> sums;
  float units[kBlock];
  integers.resize(rows * in_);
  sums.resize(rows * out_);
  for (std::size_t row = 0; row < rows; ++row) {
    units[row] = quantise(inputs + row * in_, in_, largest_, integers.data() + row * in_);
  }
  kernel_.multiply(values_, out_, in_, integers.data(), rows, sums.data());
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t o = 0; o < out_; ++o) {
      const std::size_t at = row * out_ + o;
      outputs[at] = static_cast<float>(sums[at]) * units[row] * scales_[o];
    }
  }
}

}  // namespace specgate::heads
