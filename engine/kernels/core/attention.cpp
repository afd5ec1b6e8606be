#include "attention.hpp"

#include <omp.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numbers>
#include <vector>

#include "checks.hpp"

namespace specgate::kernels {
namespace {

constexpr float kOctaves = std::numbers::log2e_v<float>;
constexpr float kNever = -std::numeric_limits<float>::infinity();
// With fewer pieces of work per thread than this, the chunks of a context are distributed, too.
constexpr std::size_t kEnough = 4;

// Some rows of one key head of a request; a row is the query of a token and a query head.
struct Piece {
  std::size_t request;
  std::size_t head;
  std::size_t first;
  std::size_t rows;
};

// Memory for the results of rows, uninitialised.
struct Results {
  std::size_t stride;
  std::unique_ptr<float[]> memory;

  Results(std::size_t rows, std::size_t dim)
      : stride(dim + 2), memory(std::make_unique_for_overwrite<float[]>(rows * stride)) {}

  Partial at(std::size_t first, std::size_t rows) const {
    float* const from = memory.get() + first * stride;
    return {from, from + rows, from + 2 * rows};
  }
};

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

template <class Number>
class Step {
 public:
  Step(const AttentionKernel<Number>& kernel, const Requests& requests,
       const PagedCache<Number>& cache, const Queries<Number>& queries)
      : kernel_(kernel),
        requests_(requests),
        cache_(cache),
        queries_(queries),
        group_(queries.heads / queries.kv_heads) {}

  void run() {
    make_pieces();
    const auto threads = static_cast<std::size_t>(omp_get_max_threads());
    if (pieces_.size() >= kEnough * threads) {
      share_pieces();
    } else {
      share_chunks();
    }
  }

 private:
  // Longest contexts first, so that no thread starts one when the others finish.
  void make_pieces() {
    for (std::size_t request = 0; request < requests_.count; ++request) {
      const std::size_t rows = tokens_of(request) * group_;
      const std::size_t parts = (rows + kernel_.most_rows - 1) / kernel_.most_rows;
      for (std::size_t part = parts; part-- > 0;) {
        const std::size_t first = rows * part / parts;
        const std::size_t some = rows * (part + 1) / parts - first;
        for (std::size_t head = 0; head < queries_.kv_heads; ++head) {
          pieces_.push_back({request, head, first, some});
        }
      }
    }
  }

  // Memory is allocated before a parallel region, never in one: what is thrown there ends the
  // process.
  void share_pieces() {
    const std::size_t dim = queries_.dim, rows = kernel_.most_rows;
    const Results results(2 * rows * static_cast<std::size_t>(omp_get_max_threads()), dim);
    const auto count = static_cast<std::int64_t>(pieces_.size());
#pragma omp parallel
    {
      const std::size_t first = 2 * rows * static_cast<std::size_t>(omp_get_thread_num());
      const Partial into = results.at(first, rows), one = results.at(first + rows, rows);
#pragma omp for schedule(dynamic, 1)
      for (std::int64_t i = 0; i < count; ++i) {
        const Piece& piece = pieces_[static_cast<std::size_t>(i)];
        clear(into, piece.rows, dim);
        for (std::size_t at = 0; at < chunks_of(piece); ++at) {
          attend_chunk(piece, at, one);
          fold(one, piece.rows, dim, into);
        }
        write(piece, into);
      }
      release();
    }
  }

  void share_chunks() {
    struct Chunk {
      std::size_t piece, at, row;
    };
    std::vector<Chunk> chunks;
    std::size_t rows = 0;
    for (std::size_t piece = 0; piece < pieces_.size(); ++piece) {
      for (std::size_t at = 0; at < chunks_of(pieces_[piece]); ++at) {
        chunks.push_back({piece, at, rows});
        rows += pieces_[piece].rows;
      }
    }
    const std::size_t dim = queries_.dim;
    const Results found(rows, dim), sums(kernel_.most_rows, dim);
    const Partial into = sums.at(0, kernel_.most_rows);
    const auto count = static_cast<std::int64_t>(chunks.size());
#pragma omp parallel
    {
#pragma omp for schedule(dynamic, 1)
      for (std::int64_t i = 0; i < count; ++i) {
        const Chunk& chunk = chunks[static_cast<std::size_t>(i)];
        const Piece& piece = pieces_[chunk.piece];
        attend_chunk(piece, chunk.at, found.at(chunk.row, piece.rows));
      }
      release();
    }
    for (const Chunk& chunk : chunks) {
      const Piece& piece = pieces_[chunk.piece];
      if (chunk.at == 0) clear(into, piece.rows, dim);
      fold(found.at(chunk.row, piece.rows), piece.rows, dim, into);
      if (chunk.at + 1 == chunks_of(piece)) write(piece, into);
    }
  }

  void attend_chunk(const Piece& piece, std::size_t at, const Partial& into) const {
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
    const CacheView<Number> view{cache_.keys + piece.head * cache_.head_stride,
                                 cache_.values + piece.head * cache_.head_stride,
                                 requests_.blocks + piece.request * requests_.blocks_stride,
                                 cache_.block_stride, cache_.block_tokens, queries_.dim};
    kernel_.attend(view, begin, count, queries, queries_.scale * kOctaves, visible, piece.rows,
                   into);
  }

  void release() const {
    if (kernel_.release != nullptr) kernel_.release();
  }

  void write(const Piece& piece, const Partial& sums) const {
    for (std::size_t row = 0; row < piece.rows; ++row) {
      Number* const to = queries_.to + token_of(piece, row) * queries_.to_stride +
                         head_of(piece, row) * queries_.dim;
      const float share = 1.0f / sums.total[row];
      for (std::size_t i = 0; i < queries_.dim; ++i) {
        narrow(sums.values[row * queries_.dim + i] * share, to[i]);
      }
    }
  }

  std::size_t tokens_of(std::size_t request) const {
    return static_cast<std::size_t>(requests_.starts[request + 1] - requests_.starts[request]);
  }
  std::size_t token_of(const Piece& piece, std::size_t row) const {
    return static_cast<std::size_t>(requests_.starts[piece.request]) +
           (piece.first + row) / group_;
  }
  std::size_t head_of(const Piece& piece, std::size_t row) const {
    return piece.head * group_ + (piece.first + row) % group_;
  }
  // Number of tokens that a row sees, including its own; one if the request is shorter than its
  // queries (vLLM's dummy steps).
  std::size_t context_of(const Piece& piece, std::size_t row) const {
    const std::size_t after = tokens_of(piece.request) - (piece.first + row) / group_ - 1;
    const auto length = static_cast<std::size_t>(requests_.lengths[piece.request]);
    return length > after ? length - after : 1;
  }
  std::size_t chunks_of(const Piece& piece) const {
    return (context_of(piece, piece.rows - 1) + kChunkTokens - 1) / kChunkTokens;
  }

  const AttentionKernel<Number>& kernel_;
  const Requests& requests_;
  const PagedCache<Number>& cache_;
  const Queries<Number>& queries_;
  std::size_t group_;
  std::vector<Piece> pieces_;
};

}  // namespace

template <class Number>
void attend(const AttentionKernel<Number>& kernel, const Requests& requests,
            const PagedCache<Number>& cache, const Queries<Number>& queries) {
  if constexpr (kIsChecked) check(requests, cache, queries);
  Step<Number>(kernel, requests, cache, queries).run();
}

template void attend(const AttentionKernel<float>&, const Requests&, const PagedCache<float>&,
                     const Queries<float>&);
template void attend(const AttentionKernel<BFloat16>&, const Requests&,
                     const PagedCache<BFloat16>&, const Queries<BFloat16>&);

}  // namespace specgate::kernels
