#include "matrix.hpp"

#include "clones.hpp"

namespace specgate::heads {
namespace {

constexpr std::size_t kBlock = 4;  // weights' rows that are multiplied at once

// One input, kBlock rows of the weight.
SPECGATE_CLONES
void multiply_block(const std::int8_t* weight, const float* scales, std::size_t in,
                    const float* input, float* output) {
  const std::int8_t* const w0 = weight;
  const std::int8_t* const w1 = weight + in;
  const std::int8_t* const w2 = weight + 2 * in;
  const std::int8_t* const w3 = weight + 3 * in;
  float s0 = 0, s1 = 0, s2 = 0, s3 = 0;
#pragma omp simd reduction(+ : s0, s1, s2, s3)
  for (std::size_t i = 0; i < in; ++i) {
    const float x = input[i];
    s0 += x * static_cast<float>(w0[i]);
    s1 += x * static_cast<float>(w1[i]);
    s2 += x * static_cast<float>(w2[i]);
    s3 += x * static_cast<float>(w3[i]);
  }
  output[0] = s0 * scales[0];
  output[1] = s1 * scales[1];
  output[2] = s2 * scales[2];
  output[3] = s3 * scales[3];
}

SPECGATE_CLONES
float multiply_row(const std::int8_t* weight, float scale, std::size_t in, const float* input) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::size_t i = 0; i < in; ++i) sum += input[i] * static_cast<float>(weight[i]);
  return sum * scale;
}

}  // namespace

void Matrix::multiply(const float* inputs, std::size_t rows, float* outputs) const {
  std::size_t o = 0;
  // A block stays in the first cache while all inputs pass.
  for (; o + kBlock <= out; o += kBlock) {
    for (std::size_t row = 0; row < rows; ++row) {
      multiply_block(values + o * in, scales + o, in, inputs + row * in, outputs + row * out + o);
    }
  }
  for (; o < out; ++o) {
    for (std::size_t row = 0; row < rows; ++row) {
      outputs[row * out + o] = multiply_row(values + o * in, scales[o], in, inputs + row * in);
    }
  }
}

}  // namespace specgate::heads
