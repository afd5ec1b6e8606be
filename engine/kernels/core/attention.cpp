#include "attention.hpp"

#include <omp.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numbers>

#include "checks.hpp"

namespace specgate::kernels {
namespace {

constexpr float kOctaves = std::numbers::log2e_v<float>;
constexpr float kNever = -std::numeric_limits<float>::infinity();
// With fewer pieces of work per thread than this, the chunks of a context are distributed, too.
constexpr std::size_t kEnough = 4;

void clear(const Partial& sums, std::size_t rows, std::size_t dim) {
  std::fill_n(sums.most, rows, kNever);
  std::fill_n(sums.total, rows, 0.0f);
  std::fill_n(sums.values, rows * dim, 0.0f);
}

// Adds a chunk's result to that of the chunks before. Never inlined, so that products and sums are
// fused in the same way at every call.
[[gnu::noinline]] void fold(const Partial& chunk, std::size_t rows, std::size_t dim,
                            const Partial& into) {
  for (std::size_t row = 0; row < rows; ++row) {
    if (chunk.most[row] == kNever) continue;
    const float most = std::max(into.most[row], chunk.most[row]);
    const float before = std::exp2(into.most[row] - most);
    const float now = std::exp2(chunk.most[row] - most);
    into.most[row] = most;
    into.total[row] = into.total[row] * before + chunk.total[row] * now;
    float* const values = into.values + row * dim;
    const float* const more = chunk.values + row * dim;
    for (std::size_t i = 0; i < dim; ++i) values[i] = values[i] * before + more[i] * now;
  }
}

}  // namespace

template <class Number>
AttentionPlan<Number>::Results::Results(std::size_t rows, std::size_t dim)
    : stride_(dim + 2), memory_(std::make_unique_for_overwrite<float[]>(rows * stride_)) {}

template <class Number>
Partial AttentionPlan<Number>::Results::at(std::size_t first, std::size_t rows) const {
  float* const from = memory_.get() + first * stride_;
  return {from, from + rows, from + 2 * rows};
}

template <class Number>
AttentionPlan<Number>::AttentionPlan(const AttentionKernel<Number>& kernel,
                                     const Requests& requests, const Queries<Number>& queries,
                                     std::size_t threads)
    : kernel_(kernel),
      requests_(requests),
      queries_(queries),
      group_(queries.heads / queries.kv_heads) {
  make_pieces();
  if (pieces_.size() < kEnough * threads) make_chunks();
  member_results_ = Results(2 * kernel_.most_rows * threads, queries_.dim);
}

// Longest contexts first, so that no thread starts one when the others finish.
template <class Number>
void AttentionPlan<Number>::make_pieces() {
  for (std::size_t request = 0; request < requests_.count; ++request) {
    const std::size_t rows = tokens_of(request) * group_;
    const std::size_t parts = (rows + kernel_.most_rows - 1) / kernel_.most_rows;
    for (std::size_t part = parts; part-- > 0;) {
      const std::size_t first = rows * part / parts;
      const std::size_t some = rows * (part + 1) / parts - first;
      for (std::size_t head = 0; head < queries_.kv_heads; ++head) {
        pieces_.push_back({request, head, first, some, 0});
      }
    }
  }
}

template <class Number>
void AttentionPlan<Number>::make_chunks() {
  std::size_t rows = 0;
  for (std::size_t piece = 0; piece < pieces_.size(); ++piece) {
    pieces_[piece].chunk = chunks_.size();
    for (std::size_t at = 0; at < chunks_of(pieces_[piece]); ++at) {
      chunks_.push_back({piece, at, rows});
      rows += pieces_[piece].rows;
    }
  }
  chunk_results_ = Results(rows, queries_.dim);
}

template <class Number>
void AttentionPlan<Number>::attend(Team::Member& member, const PagedCache<Number>& cache) const {
  if (chunks_.empty()) {
    for (std::size_t i = member.take(); i < pieces_.size(); i = member.take()) {
      attend_piece(pieces_[i], cache, member.number());
    }
    return;
  }
  for (std::size_t i = member.take(); i < chunks_.size(); i = member.take()) {
    const Chunk& chunk = chunks_[i];
    const Piece& piece = pieces_[chunk.piece];
    attend_chunk(piece, chunk.at, cache, chunk_results_.at(chunk.row, piece.rows));
  }
  member.meet();
  for (std::size_t i = member.take(); i < pieces_.size(); i = member.take()) {
    combine_chunks(pieces_[i], member.number());
  }
}

template <class Number>
void AttentionPlan<Number>::attend_piece(const Piece& piece, const PagedCache<Number>& cache,
                                         std::size_t member) const {
  const std::size_t first = 2 * kernel_.most_rows * member;
  const Partial sums = member_results_.at(first, kernel_.most_rows);
  const Partial one = member_results_.at(first + kernel_.most_rows, kernel_.most_rows);
  clear(sums, piece.rows, queries_.dim);
  for (std::size_t at = 0; at < chunks_of(piece); ++at) {
    attend_chunk(piece, at, cache, one);
    fold(one, piece.rows, queries_.dim, sums);
  }
  write(piece, sums);
}

template <class Number>
void AttentionPlan<Number>::attend_chunk(const Piece& piece, std::size_t at,
                                         const PagedCache<Number>& cache,
                                         const Partial& into) const {
  const Number* queries[kMostQueries];
  std::size_t visible[kMostQueries];
  const std::size_t begin = at * kChunkTokens;
  std::size_t count = 0;
  for (std::size_t row = 0; row < piece.rows; ++row) {
    queries[row] = queries_.from + token_of(piece, row) * queries_.from_stride +
                   head_of(piece, row) * queries_.dim;
    const std::size_t seen = context_of(piece, row);
    visible[row] = seen <= begin ? 0 : std::min(seen - begin, kChunkTokens);
    count = std::max(count, visible[row]);
  }
  const CacheView<Number> view{cache.keys + piece.head * cache.head_stride,
                               cache.values + piece.head * cache.head_stride,
                               requests_.blocks + piece.request * requests_.blocks_stride,
                               cache.block_stride, cache.block_tokens, queries_.dim};
  kernel_.attend(view, begin, count, queries, queries_.scale * kOctaves, visible, piece.rows,
                 into);
}

template <class Number>
void AttentionPlan<Number>::combine_chunks(const Piece& piece, std::size_t member) const {
  const Partial sums = member_results_.at(2 * kernel_.most_rows * member, kernel_.most_rows);
  clear(sums, piece.rows, queries_.dim);
  for (std::size_t at = 0; at < chunks_of(piece); ++at) {
    const Chunk& chunk = chunks_[piece.chunk + at];
    fold(chunk_results_.at(chunk.row, piece.rows), piece.rows, queries_.dim, sums);
  }
  write(piece, sums);
}

template <class Number>
void AttentionPlan<Number>::write(const Piece& piece, const Partial& sums) const {
  for (std::size_t row = 0; row < piece.rows; ++row) {
    Number* const to = queries_.to + token_of(piece, row) * queries_.to_stride +
                       head_of(piece, row) * queries_.dim;
    const float share = 1.0f / sums.total[row];
    for (std::size_t i = 0; i < queries_.dim; ++i) {
      narrow(sums.values[row * queries_.dim + i] * share, to[i]);
    }
  }
}

template <class Number>
void AttentionPlan<Number>::release() const {
  if (kernel_.release != nullptr) kernel_.release();
}

template <class Number>
std::size_t AttentionPlan<Number>::tokens_of(std::size_t request) const {
  return static_cast<std::size_t>(requests_.starts[request + 1] - requests_.starts[request]);
}

template <class Number>
std::size_t AttentionPlan<Number>::token_of(const Piece& piece, std::size_t row) const {
  return static_cast<std::size_t>(requests_.starts[piece.request]) + (piece.first + row) / group_;
}

template <class Number>
std::size_t AttentionPlan<Number>::head_of(const Piece& piece, std::size_t row) const {
  return piece.head * group_ + (piece.first + row) % group_;
}

// Number of tokens that a row sees, including its own; one if the request is shorter than its
// queries (vLLM's dummy steps).
template <class Number>
std::size_t AttentionPlan<Number>::context_of(const Piece& piece, std::size_t row) const {
  const std::size_t after = tokens_of(piece.request) - (piece.first + row) / group_ - 1;
  const auto length = static_cast<std::size_t>(requests_.lengths[piece.request]);
  return length > after ? length - after : 1;
}

template <class Number>
std::size_t AttentionPlan<Number>::chunks_of(const Piece& piece) const {
  return (context_of(piece, piece.rows - 1) + kChunkTokens - 1) / kChunkTokens;
}

template <class Number>
void attend(const AttentionKernel<Number>& kernel, const Requests& requests,
            const PagedCache<Number>& cache, const Queries<Number>& queries) {
  if constexpr (kIsChecked) check(requests, cache, queries);
  const AttentionPlan<Number> plan(kernel, requests, queries,
                                   static_cast<std::size_t>(omp_get_max_threads()));
  Team team;
#pragma omp parallel
  {
    Team::Member member(team);
    plan.attend(member, cache);
    plan.release();
  }
}

template class AttentionPlan<float>;
template class AttentionPlan<BFloat16>;
template void attend(const AttentionKernel<float>&, const Requests&, const PagedCache<float>&,
                     const Queries<float>&);
template void attend(const AttentionKernel<BFloat16>&, const Requests&,
                     const PagedCache<BFloat16>&, const Queries<BFloat16>&);

}  // namespace specgate::kernels
