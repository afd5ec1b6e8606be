// Causal attention of a step over vLLM's paged cache, on all threads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "attention_kernels.hpp"

namespace specgate::kernels {

// The requests of a step: request i has the queries [starts[i], starts[i + 1]), the last tokens of
// the lengths[i] that its row of the table of blocks has keys and values of.
struct Requests {
  const std::int32_t* starts;
  const std::int32_t* lengths;
  std::size_t count;
  const std::int32_t* blocks;
  std::size_t blocks_stride;
};

// A layer's cache, and where each block and each of its heads begins.
template <class Number>
struct PagedCache {
  const Number* keys;
  const Number* values;
  std::size_t block_stride;
  std::size_t head_stride;
  std::size_t block_tokens;
};

// Queries, and where their results are written: (tokens, heads, dim). Heads follow one another;
// tokens are `*_stride` numbers apart. `heads` is a multiple of `kv_heads`.
template <class Number>
struct Queries {
  const Number* from;
  std::size_t from_stride;
  Number* to;
  std::size_t to_stride;
  std::size_t heads;
  std::size_t kv_heads;
  std::size_t dim;
  float scale;
};

// A query sees the keys up to its own. Its result is computed in the same order whatever else is in
// the step. OpenMP's threads share the work.
template <class Number>
void attend(const AttentionKernel<Number>& kernel, const Requests& requests,
            const PagedCache<Number>& cache, const Queries<Number>& queries);

}  // namespace specgate::kernels
