// What computes attention over a piece of the cache, for each set of instructions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "bfloat16.hpp"

namespace specgate::kernels {

// Tokens whose scores are in the cache of the core at once. A query's sums are made for each chunk,
// counted from the beginning of its request, and put together in their order.
inline constexpr std::size_t kChunkTokens = 256;
// vLLM's blocks hold a multiple of these.
inline constexpr std::size_t kGroupTokens = 32;
inline constexpr std::size_t kMostQueries = 96;
inline constexpr std::size_t kMostDim = 512;

// The keys and values of one head of a request, in vLLM's layout for vectors: a block has the keys
// as (dim, block_tokens) and the values as (block_tokens, dim).
template <class Number>
struct CacheView {
  const Number* keys;
  const Number* values;
  const std::int32_t* blocks;  // of the request
  std::size_t block_stride;
  std::size_t block_tokens;
  std::size_t dim;
};

// What some queries take from a chunk: each one's greatest score, in octaves, the sum of its
// weights, which are relative to that, and the values (rows, dim) times the weights. A query that sees nothing of it
// has -infinity, and numbers that mean nothing.
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
  // `begin` is a multiple of kChunkTokens; each of the queries is (dim,), and `octaves` what its
  // scores are multiplied by: the scale, times log2(e). What a row gets depends on no other row,
  // bit for bit.
  void (*attend)(const CacheView<Number>& cache, std::size_t begin, std::size_t count,
                 const Number* const* queries, float octaves, const std::size_t* visible,
                 std::size_t rows, const Partial& into);
  // Gives back what a thread keeps from one chunk to the next; null for nothing.
  void (*release)();
};

// Those that this processor has, the best first.
template <class Number>
std::vector<const AttentionKernel<Number>*> find_attention_kernels();

// Of one set of instructions; null where it was not compiled in.
struct AttentionKernels {
  const AttentionKernel<float>* floats;
  const AttentionKernel<BFloat16>* halves;
};

extern const AttentionKernels kAttentionAvx2;
extern const AttentionKernels kAttentionAvx512;
extern const AttentionKernels kAttentionAvx512BFloat16;
extern const AttentionKernels kAttentionAmx;

}  // namespace specgate::kernels
