// Attention of some queries of a request over a chunk of its keys and values, for any vector
// length. Included once for each instruction set.
//
// Scores and weighted values are both products of a few rows with a matrix that all rows share, so
// each number of the cache is read and widened once for all rows.
#pragma once

#include <cstdint>
#include <utility>

#include "attention_kernels.hpp"

namespace specgate::kernels {

// As many bfloat16 numbers as a vector has lanes. GCC cannot convert vectors whose length depends
// on a template parameter.
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

// Loads a matrix of cache numbers for vectors of kLanes sums: kInputs lines at a time, in two
// halves, each with kLanes numbers per line.
template <std::size_t kLanes, class CacheNumber>
struct WidenedLines {
  using Number = CacheNumber;
  using Input = float;
  using Vector [[gnu::vector_size(kLanes * sizeof(float)), gnu::may_alias]] = float;
  using Values = Vector;
  // Unaligned, as memory owned by others may be.
  using Floats [[gnu::vector_size(kLanes * sizeof(float)), gnu::may_alias,
                 gnu::aligned(alignof(float))]] = float;
  static constexpr std::size_t kInputs = 1;

  [[gnu::always_inline]] static inline Vector widened(const float* from) {
    return *reinterpret_cast<const Floats*>(from);
  }
  [[gnu::always_inline]] static inline Vector widened(const BFloat16* from) {
    const auto& halves = *reinterpret_cast<const typename HalvesOf<kLanes>::Type*>(from);
    return __builtin_bit_cast(
        Vector, __builtin_convertvector(halves, typename HalvesOf<kLanes>::Words) << 16);
  }

  [[gnu::always_inline]] static inline void load(const Number* line, const Number*, Values& left,
                                                 Values& right) {
    left = widened(line);
    right = widened(line + kLanes);
  }
  [[gnu::always_inline]] static inline void add(Vector& sums, Values values, Input input) {
    sums += values * input;
  }

  static float input_of(float number) { return number; }
  static float input_of(BFloat16 number) { return widen(number); }
  // Copies numbers of a row as inputs.
  static void copy(const Number* row, std::size_t count, Input* inputs) {
    for (std::size_t i = 0; i < count; ++i) inputs[i] = input_of(row[i]);
  }
  static Vector weights(Vector numbers, Input* inputs) {
    *reinterpret_cast<Floats*>(inputs) = numbers;
    return numbers;
  }
};

template <std::size_t kLanes, std::size_t kRegisters, class Lines>
struct Attend {
  using Number = typename Lines::Number;
  using Input = typename Lines::Input;
  using Vector = typename Lines::Vector;
  using Values = typename Lines::Values;
  using Floats [[gnu::vector_size(kLanes * sizeof(float)), gnu::may_alias,
                 gnu::aligned(alignof(float))]] = float;
  using Words = typename HalvesOf<kLanes>::Words;

  static constexpr std::size_t kWidth = 2 * kLanes;
  static_assert(kGroupTokens % kWidth == 0 && kRegisters <= kMostQueries);

  [[gnu::always_inline]] static inline Vector load(const float* from) {
    return *reinterpret_cast<const Floats*>(from);
  }
  [[gnu::always_inline]] static inline void store(float* to, Vector numbers) {
    *reinterpret_cast<Floats*>(to) = numbers;
  }

  // Adds the products of rows (kRows, inputs) with a matrix (lines, kWidth) to `into`
  // (kRows, kWidth); `lead`, `stride` and `step` are the distances between lines of each. Each sum
  // is accumulated in the order of the lines.
  template <std::size_t kRows>
  static void multiply_rows(const Number* matrix, std::size_t lead, std::size_t lines,
                            const Input* rows, std::size_t stride, float* into,
                            std::size_t step) {
    Vector sums[kRows][2];  // stays in registers, since every loop over it is unrolled
#pragma GCC unroll 16
    for (std::size_t row = 0; row < kRows; ++row) {
      sums[row][0] = load(into + row * step);
      sums[row][1] = load(into + row * step + kLanes);
    }
    for (std::size_t line = 0; line < lines; line += Lines::kInputs, ++rows) {
      Values left, right;
      // After the last line there may be none; zeros are loaded instead.
      Lines::load(matrix, line + 1 < lines ? matrix + lead : nullptr, left, right);
      matrix += Lines::kInputs * lead;
      asm("" : "+v"(left), "+v"(right));  // prevents reloading them for each row
#pragma GCC unroll 16
      for (std::size_t row = 0; row < kRows; ++row) {
        const Input input = rows[row * stride];
        Lines::add(sums[row][0], left, input);
        Lines::add(sums[row][1], right, input);
      }
    }
#pragma GCC unroll 16
    for (std::size_t row = 0; row < kRows; ++row) {
      store(into + row * step, sums[row][0]);
      store(into + row * step + kLanes, sums[row][1]);
    }
  }

  using MultiplyRows = void (*)(const Number*, std::size_t, std::size_t, const Input*, std::size_t,
                                float*, std::size_t);

  template <std::size_t... kFewer>
  static MultiplyRows choose(std::size_t rows, std::index_sequence<kFewer...>) {
    static constexpr MultiplyRows kTable[] = {multiply_rows<kFewer + 1>...};
    return kTable[rows - 1];
  }

  // 2^x for x <= 0; 0 below -126; NaN stays NaN. Seven terms of the power series, for at most half
  // an octave: a relative error of 1.2e-7.
  static Vector power_of_two(Vector x) {
    constexpr float kLeast = -126.0f, kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds
    const Vector clamped = x < kLeast ? Vector{} + kLeast : x;
    const Vector shifted = clamped + kRound;
    const Vector rest = clamped - (shifted - kRound);
    Vector series = rest * 1.54035304e-4f + 1.33335581e-3f;  // (log 2)^n / n!
    series = series * rest + 9.61812911e-3f;
    series = series * rest + 5.55041087e-2f;
    series = series * rest + 2.40226507e-1f;
    series = series * rest + 6.93147181e-1f;
    series = series * rest + 1.0f;
    const Words bits = __builtin_bit_cast(Words, series) +
                       (__builtin_bit_cast(Words, shifted) << 23);  // times 2^(whole part)
    return x < kLeast ? Vector{} : __builtin_bit_cast(Vector, bits);
  }

  // Turns a row's scores into weights: powers of two relative to the greatest. Scores from
  // `visible` on get weight zero. Writes the weights as inputs, the greatest score in octaves, and
  // the sum.
  static void weigh(float* scores, std::size_t visible, std::size_t padded, float octaves,
                    Input* inputs, float& most, float& total) {
    constexpr float kNever = -__builtin_inff();
    for (std::size_t token = visible; token < padded; ++token) scores[token] = kNever;
    Vector highest = load(scores);
    for (std::size_t at = kLanes; at < padded; at += kLanes) {
      const Vector some = load(scores + at);
      highest = some > highest ? some : highest;
    }
    float lanes[kLanes];
    store(lanes, highest);
    float greatest = lanes[0];
    for (const float lane : lanes) greatest = lane > greatest ? lane : greatest;
    most = greatest * octaves;
    Vector totals{};
    for (std::size_t at = 0; at < padded; at += kLanes) {
      const Vector weights = power_of_two((load(scores + at) - greatest) * octaves);
      totals += Lines::weights(weights, inputs + at / Lines::kInputs);
    }
    store(lanes, totals);
    total = 0.0f;
    for (const float lane : lanes) total += lane;
  }

  static void attend(const CacheView<Number>& cache, std::size_t begin, std::size_t count,
                     const Number* const* queries, float octaves, const std::size_t* visible,
                     std::size_t rows, const Partial& into) {
    constexpr std::size_t kChunkInputs = kChunkTokens / Lines::kInputs;
    alignas(64) float scores[kRegisters * kChunkTokens];
    alignas(64) Input inputs[kRegisters * (kMostDim > kChunkTokens ? kMostDim : kChunkTokens)];
    const MultiplyRows multiply = choose(rows, std::make_index_sequence<kRegisters>());
    const std::size_t padded = (count + kWidth - 1) / kWidth * kWidth;
    const std::size_t query_inputs = cache.dim / Lines::kInputs;
    for (std::size_t row = 0; row < rows; ++row) {
      Lines::copy(queries[row], cache.dim, inputs + row * query_inputs);
      for (std::size_t at = 0; at < padded; at += kLanes) {
        store(scores + row * kChunkTokens + at, Vector{});
      }
    }
    for (std::size_t token = 0; token < padded; token += kWidth) {
      const std::size_t block = (begin + token) / cache.block_tokens;
      const Number* const keys = cache.keys + cache.blocks[block] * cache.block_stride +
                                 (begin + token) % cache.block_tokens;
      multiply(keys, cache.block_tokens, cache.dim, inputs, query_inputs, scores + token,
               kChunkTokens);
    }
    for (std::size_t row = 0; row < rows; ++row) {
      weigh(scores + row * kChunkTokens, visible[row], padded, octaves,
            inputs + row * kChunkInputs, into.most[row], into.total[row]);
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
        multiply(values + at, cache.dim, some, inputs + token / Lines::kInputs, kChunkInputs,
                 into.values + at, cache.dim);
      }
      token += some;
    }
  }
};

template <std::size_t kLanes, std::size_t kRegisters, class Lines>
constexpr AttentionKernel<typename Lines::Number> attention_kernel_of(const char* name) {
  return {name, kRegisters, Attend<kLanes, kRegisters, Lines>::attend, nullptr};
}

}  // namespace specgate::kernels
