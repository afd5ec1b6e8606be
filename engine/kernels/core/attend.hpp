// Attention of some queries of a request over a chunk of its keys and values, for any vector
// length. Included once for each instruction set.
//
// Scores and weighted values are both products of a few rows with a matrix that all rows share, so
// each number of the cache is read and widened once for all rows.
#pragma once

#include <cstdint>
#include <utility>

#include "attention_kernels.hpp"
#include "exponential.hpp"
#include "products.hpp"

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
struct WidenedLines : Lanes<kLanes> {
  using Number = CacheNumber;
  using Input = float;
  using Vector = typename Lanes<kLanes>::Vector;
  static constexpr std::size_t kInputs = 1;

  [[gnu::always_inline]] static inline Vector widened(const float* from) {
    return Lanes<kLanes>::read(from);
  }
  [[gnu::always_inline]] static inline Vector widened(const BFloat16* from) {
    typename HalvesOf<kLanes>::Type halves;
    __builtin_memcpy(&halves, from, sizeof(halves));  // in any place
    return __builtin_bit_cast(
        Vector, __builtin_convertvector(halves, typename HalvesOf<kLanes>::Words) << 16);
  }

  [[gnu::always_inline]] static inline void load(const Number* line, const Number*, Vector& left,
                                                 Vector& right) {
    left = widened(line);
    right = widened(line + kLanes);
  }

  // Copies numbers of a row as inputs.
  static void copy(const Number* row, std::size_t count, Input* inputs) {
    for (std::size_t i = 0; i < count; ++i) inputs[i] = widen(row[i]);
  }
  static Vector weights(Vector numbers, Input* inputs) {
    Lanes<kLanes>::write(inputs, numbers);
    return numbers;
  }
};

template <std::size_t kLanes, std::size_t kRegisters, class Lines>
struct Attend {
  using Number = typename Lines::Number;
  using Input = typename Lines::Input;
  using Vector = typename Lines::Vector;
  using Words = typename HalvesOf<kLanes>::Words;

  static constexpr std::size_t kWidth = 2 * kLanes;
  static_assert(kGroupTokens % kWidth == 0 && kRegisters <= kMostQueries);

  // Adds the products of rows (kRows, inputs) with a matrix (lines, kWidth) to `into`
  // (kRows, kWidth); `lead`, `stride` and `step` are the distances between lines of each. Each sum
  // is accumulated in the order of the lines.
  template <std::size_t kRows>
  static void multiply_rows(const Number* matrix, std::size_t lead, std::size_t lines,
                            const Input* rows, std::size_t stride, float* into,
                            std::size_t step) {
    RowSums<kRows, kLanes, Lines> sums;
    sums.read(into, step);
    for (std::size_t line = 0; line < lines; line += Lines::kInputs, ++rows) {
      typename Lines::Values left, right;
      // After the last line there may be none; zeros are loaded instead.
      Lines::load(matrix, line + 1 < lines ? matrix + lead : nullptr, left, right);
      matrix += Lines::kInputs * lead;
      sums.add(left, right, rows, stride);
    }
    sums.write(into, step);
  }

  using MultiplyRows = void (*)(const Number*, std::size_t, std::size_t, const Input*, std::size_t,
                                float*, std::size_t);

  template <std::size_t... kFewer>
  static MultiplyRows choose(std::size_t rows, std::index_sequence<kFewer...>) {
    static constexpr MultiplyRows kTable[] = {multiply_rows<kFewer + 1>...};
    return kTable[rows - 1];
  }

  // Turns a row's scores into weights: powers of two relative to the greatest. Scores from
  // `visible` on get weight zero. Writes the weights as inputs, the greatest score in octaves, and
  // the sum.
  static void weigh(float* scores, std::size_t visible, std::size_t padded, float octaves,
                    Input* inputs, float& most, float& total) {
    constexpr float kNever = -__builtin_inff();
    for (std::size_t token = visible; token < padded; ++token) scores[token] = kNever;
    Vector highest = Lines::read(scores);
    for (std::size_t at = kLanes; at < padded; at += kLanes) {
      const Vector some = Lines::read(scores + at);
      highest = some > highest ? some : highest;
    }
    float lanes[kLanes];
    Lines::write(lanes, highest);
    float greatest = lanes[0];
    for (const float lane : lanes) greatest = lane > greatest ? lane : greatest;
    most = greatest * octaves;
    Vector totals{};
    for (std::size_t at = 0; at < padded; at += kLanes) {
      const Vector weights = power_of_two<Words>((Lines::read(scores + at) - greatest) * octaves);
      totals += Lines::weights(weights, inputs + at / Lines::kInputs);
    }
    Lines::write(lanes, totals);
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
        Lines::write(scores + row * kChunkTokens + at, Vector{});
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
