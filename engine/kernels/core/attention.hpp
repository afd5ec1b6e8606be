// Causal attention of a step over vLLM's paged KV cache, on all threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "attention_kernels.hpp"
#include "team.hpp"

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
  Number* keys;
  Number* values;
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

// What the members of a team do for the attention of each layer of a step, and memory for it.
// All is allocated when it is made: an exception in a parallel region would end the process.
//
// A query sees the keys up to its own. Results are batch-invariant: each is computed in the same
// order whatever else is in the step, and however many threads share it.
template <class Number>
class AttentionPlan {
 public:
  // For at most this many threads; keeps references to its arguments. Throws std::bad_alloc.
  AttentionPlan(const AttentionKernel<Number>& kernel, const Requests& requests,
                const Queries<Number>& queries, std::size_t threads);

  // Computes a member's part for a layer. Members must meet before and after.
  void attend(Team::Member& member, const PagedCache<Number>& cache) const;

  // Releases what the calling thread keeps between chunks.
  void release() const;

 private:
  // Some rows of one key head of a request; a row is the query of a token and a query head.
  struct Piece {
    std::size_t request;
    std::size_t head;
    std::size_t first;
    std::size_t rows;
    std::size_t chunk;  // its first, if chunks are shared
  };
  struct Chunk {
    std::size_t piece;
    std::size_t at;
    std::size_t row;  // of the results
  };

  // Memory for the results of rows, uninitialised.
  class Results {
   public:
    Results() = default;
    Results(std::size_t rows, std::size_t dim);
    Partial at(std::size_t first, std::size_t rows) const;

   private:
    std::size_t stride_ = 0;
    std::unique_ptr<float[]> memory_;
  };

  void make_pieces();
  void make_chunks();
  void attend_piece(const Piece& piece, const PagedCache<Number>& cache, std::size_t member) const;
  void attend_chunk(const Piece& piece, std::size_t at, const PagedCache<Number>& cache,
                    const Partial& into) const;
  void combine_chunks(const Piece& piece, std::size_t member) const;
  void write(const Piece& piece, const Partial& sums) const;

  std::size_t tokens_of(std::size_t request) const;
  std::size_t token_of(const Piece& piece, std::size_t row) const;
  std::size_t head_of(const Piece& piece, std::size_t row) const;
  std::size_t context_of(const Piece& piece, std::size_t row) const;
  std::size_t chunks_of(const Piece& piece) const;

  const AttentionKernel<Number>& kernel_;
  const Requests& requests_;
  const Queries<Number>& queries_;
  std::size_t group_;
  std::vector<Piece> pieces_;
  std::vector<Chunk> chunks_;  // empty if pieces are shared whole
  Results chunk_results_;
  Results member_results_;  // two for each thread: the sums, and a chunk's
};

// The attention of one layer, by OpenMP's threads. Throws std::bad_alloc.
template <class Number>
void attend(const AttentionKernel<Number>& kernel, const Requests& requests,
            const PagedCache<Number>& cache, const Queries<Number>& queries);

}  // namespace specgate::kernels
