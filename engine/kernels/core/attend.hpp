// What some queries of a request take from a chunk of its keys and values, for vectors of any
// length. Included once for each set of instructions.
//
// The scores and the weighted values are both products of a few rows with a matrix that all of them
// share, so each number of the cache is read, and widened, once for all rows.
#pragma once

#include <cstdint>
#include <utility>

#include "attention_kernels.hpp"

namespace specgate::kernels {

// As many bfloat16 as a vector has lanes. GCC converts no vectors whose length depends on a parameter.
template <std::size_t kLanes>
struct HalvesOf;
template <>
struct HalvesOf<8> {
  using Type [[gnu::vector_size(16), gnu::may_alias, gnu::aligned(2)]] = std::uint16_t;
  using Words [[gnu::vector_size(32)]] = std::int32_t;
};
template <>
struct HalvesOf<16> {
  using Type [[gnu::vector_size(32), gnu::may_alias, gnu::aligned(2)]] = std::uint16_t;
  using Words [[gnu::vector_size(64)]] = std::int32_t;
};

template <std::size_t kLanes, std::size_t kRegisters, class Number>
struct Attend {
  using Vector [[gnu::vector_size(kLanes * sizeof(float)), gnu::may_alias]] = float;
  using Words = typename HalvesOf<kLanes>::Words;
  // What others own is aligned as they like it.
  using Floats [[gnu::vector_size(kLanes * sizeof(float)), gnu::may_alias,
                 gnu::aligned(alignof(float))]] = float;
  using Halves = typename HalvesOf<kLanes>::Type;

  static constexpr std::size_t kWidth = 2 * kLanes;
  static_assert(kGroupTokens % kWidth == 0 && kRegisters <= kMostQueries);

  [[gnu::always_inline]] static inline Vector load(const float* from) {
    return *reinterpret_cast<const Floats*>(from);
  }

  [[gnu::always_inline]] static inline Vector load(const BFloat16* from) {
    const Halves halves = *reinterpret_cast<const Halves*>(from);
    return __builtin_bit_cast(Vector, __builtin_convertvector(halves, Words) << 16);
  }

  [[gnu::always_inline]] static inline void store(float* to, Vector numbers) {
    *reinterpret_cast<Floats*>(to) = numbers;
  }

  // Adds the products of rows (kRows, inputs) with a matrix (inputs, kWidth) to `into`
  // (kRows, kWidth); `lead`, `stride` and `step` are from a line of each to the next. Each sum is
  // added up in the order of the inputs.
  template <std::size_t kRows>
  static void multiply_rows(const Number* matrix, std::size_t lead, std::size_t inputs,
                            const float* rows, std::size_t stride, float* into,
                            std::size_t step) {
    Vector sums[kRows][2];  // in registers, as every loop over them is unrolled
#pragma GCC unroll 16
    for (std::size_t row = 0; row < kRows; ++row) {
      sums[row][0] = load(into + row * step);
      sums[row][1] = load(into + row * step + kLanes);
    }
    for (std::size_t input = 0; input < inputs; ++input, matrix += lead) {
      Vector left = load(matrix), right = load(matrix + kLanes);
      asm("" : "+v"(left), "+v"(right));  // else they are read again for each row
#pragma GCC unroll 16
      for (std::size_t row = 0; row < kRows; ++row) {
        const float number = rows[row * stride + input];
        sums[row][0] += left * number;
        sums[row][1] += right * number;
      }
    }
#pragma GCC unroll 16
    for (std::size_t row = 0; row < kRows; ++row) {
      store(into + row * step, sums[row][0]);
      store(into + row * step + kLanes, sums[row][1]);
    }
  }

  using MultiplyRows = void (*)(const Number*, std::size_t, std::size_t, const float*, std::size_t,
                                float*, std::size_t);

  template <std::size_t... kFewer>
  static MultiplyRows choose(std::size_t rows, std::index_sequence<kFewer...>) {
    static constexpr MultiplyRows kTable[] = {multiply_rows<kFewer + 1>...};
    return kTable[rows - 1];
  }

  // e to the power of x <= 0; 0 below -87. Two parts of log 2 (Cody and Waite, 1980) leave a
  // remainder of at most 0.35, whose series ends at the sixth power: 1.2e-7 of the result is missing.
  static Vector exponential(Vector x) {
    constexpr float kLeast = -87.0f, kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds
    const Vector clamped = x < kLeast ? Vector{} + kLeast : x;  // what is no number stays none
    const Vector shifted = clamped * 1.44269504f + kRound;
    const Vector whole = shifted - kRound;
    const Vector rest = (clamped - whole * 0.693359375f) - whole * -2.12194440e-4f;
    Vector series = rest * (1.0f / 720) + 1.0f / 120;
    series = series * rest + 1.0f / 24;
    series = series * rest + 1.0f / 6;
    series = series * rest + 0.5f;
    series = series * rest + 1.0f;
    series = series * rest + 1.0f;
    const Words bits = __builtin_bit_cast(Words, series) +
                       (__builtin_bit_cast(Words, shifted) << 23);  // times 2^whole
    return x < kLeast ? Vector{} : __builtin_bit_cast(Vector, bits);
  }

  // Turns a row's scores into weights: their exponentials below the greatest, in place. Those from
  // `visible` on weigh nothing. Returns the greatest and the sum.
  static void weigh(float* scores, std::size_t visible, std::size_t padded, float& most,
                    float& total) {
    constexpr float kNever = -__builtin_inff();
    for (std::size_t token = visible; token < padded; ++token) scores[token] = kNever;
    Vector highest = load(scores);
    for (std::size_t at = kLanes; at < padded; at += kLanes) {
      const Vector some = load(scores + at);
      highest = some > highest ? some : highest;
    }
    float lanes[kLanes];
    store(lanes, highest);
    most = lanes[0];
    for (const float lane : lanes) most = lane > most ? lane : most;
    Vector totals{};
    for (std::size_t at = 0; at < padded; at += kLanes) {
      const Vector weights = exponential(load(scores + at) - most);
      store(scores + at, weights);
      totals += weights;
    }
    store(lanes, totals);
    total = 0.0f;
    for (const float lane : lanes) total += lane;
  }

  static void attend(const CacheView<Number>& cache, std::size_t begin, std::size_t count,
                     const float* queries, const std::size_t* visible, std::size_t rows,
                     const Partial& into) {
    alignas(64) float scores[kRegisters * kChunkTokens];
    const MultiplyRows multiply = choose(rows, std::make_index_sequence<kRegisters>());
    const std::size_t padded = (count + kWidth - 1) / kWidth * kWidth;
    for (std::size_t row = 0; row < rows; ++row) {
      for (std::size_t at = 0; at < padded; at += kLanes) {
        store(scores + row * kChunkTokens + at, Vector{});
      }
    }
    for (std::size_t token = 0; token < padded; token += kWidth) {
      const std::size_t block = (begin + token) / cache.block_tokens;
      const Number* const keys = cache.keys + cache.blocks[block] * cache.block_stride +
                                 (begin + token) % cache.block_tokens;
      multiply(keys, cache.block_tokens, cache.dim, queries, cache.dim, scores + token,
               kChunkTokens);
    }
    for (std::size_t row = 0; row < rows; ++row) {
      weigh(scores + row * kChunkTokens, visible[row], padded, into.most[row], into.total[row]);
    }
    for (std::size_t i = 0; i < rows * cache.dim; ++i) into.values[i] = 0.0f;
    for (std::size_t token = 0; token < count;) {
      const std::size_t block = (begin + token) / cache.block_tokens;
      const std::size_t within = (begin + token) % cache.block_tokens;
      const std::size_t left = cache.block_tokens - within;
      const std::size_t some = left < count - token ? left : count - token;
      const Number* const values = cache.values + cache.blocks[block] * cache.block_stride +
                                   within * cache.dim;
      for (std::size_t at = 0; at < cache.dim; at += kWidth) {
        multiply(values + at, cache.dim, some, scores + token, kChunkTokens, into.values + at,
                 cache.dim);
      }
      token += some;
    }
  }
};

template <std::size_t kLanes, std::size_t kRegisters, class Number>
constexpr AttentionKernel<Number> attention_kernel_of(const char* name) {
  return {name, kRegisters, Attend<kLanes, kRegisters, Number>::attend};
}

}  // namespace specgate::kernels
