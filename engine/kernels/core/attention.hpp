// Causal attention of a step over vLLM's paged KV cache, on all threads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "attention_kernels.hpp"

namespace specgate::kernels {

// The requests of a step: request i has the queries [starts[i], starts[i + 1]), which are the last
// of its lengths[i] tokens; its row of `blocks` lists the blocks with their keys and values.
struct Requests {
  const std::int32_t* starts;
  const std::int32_t* lengths;
  std::size_t count;
  const std::int32_t* blocks;
  std::size_t blocks_stride;
};

// A layer's cache: its number of blocks, and the distances between blocks and between heads.
template <class Number>
struct PagedCache {
  const Number* keys;
  const Number* values;
  std::size_t blocks;
  std::size_t block_stride;
  std::size_t head_stride;
  std::size_t block_tokens;
};

// Queries, and where their results are written: (tokens, heads, dim). Heads are contiguous; tokens
// are `*_stride` numbers apart. `heads` is a multiple of `kv_heads`.
template <class Number>
struct Queries {
  const Number* from;
  std::size_t from_stride;
  Number* to;
  std::size_t to_stride;
  std::size_t tokens;
  std::size_t heads;
  std::size_t kv_heads;
  std::size_t dim;
  float scale;
};

// A query sees the keys up to its own. Results are batch-invariant: each is computed in the same
// order whatever else is in the step. OpenMP's threads share the work. Throws std::bad_alloc.
template <class Number>
void attend(const AttentionKernel<Number>& kernel, const Requests& requests,
            const PagedCache<Number>& cache, const Queries<Number>& queries);

}  // namespace specgate::kernels
