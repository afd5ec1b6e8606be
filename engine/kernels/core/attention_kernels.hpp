// The attention kernels over a chunk of the cache, for each instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

#include "bfloat16.hpp"

namespace specgate::kernels {

// Tokens whose scores fit into a core's cache at once. A query's sums are computed for each chunk,
// counted from the start of its request, and combined in order.
inline constexpr std::size_t kChunkTokens = 256;
// vLLM's block size is a multiple of this.
inline constexpr std::size_t kGroupTokens = 32;
inline constexpr std::size_t kMostQueries = 96;
inline constexpr std::size_t kMostDim = 512;

// The keys and values of one head of a request, in vLLM's layout for vector instructions: a block
// has the keys as (dim, block_tokens) and the values as (block_tokens, dim).
template <class Number>
struct CacheView {
  const Number* keys;
  const Number* values;
  const std::int32_t* blocks;  // of the request
  std::size_t block_stride;
  std::size_t block_tokens;
  std::size_t dim;
};

// The result of some queries for a chunk: each query's greatest score in octaves, the sum of its
// weights relative to that, and the weighted sum of the values, (rows, dim). A query that sees none
// of the chunk has -infinity, and undefined numbers.
struct Partial {
  float* most;
  float* total;
  float* values;
};

template <class Number>
struct AttentionKernel {
  const char* name;
  std::size_t most_rows;
  // For the tokens [begin, begin + count) of a chunk, of which row i sees the first visible[i].
  // `begin` is a multiple of kChunkTokens; each query is (dim,); `octaves` is the factor of the
  // scores: the scale times log2(e). A row's result does not depend on other rows, bit for bit.
  void (*attend)(const CacheView<Number>& cache, std::size_t begin, std::size_t count,
                 const Number* const* queries, float octaves, const std::size_t* visible,
                 std::size_t rows, const Partial& into);
  // Releases what a thread keeps between chunks; null if that is nothing.
  void (*release)();
};

}  // namespace specgate::kernels
