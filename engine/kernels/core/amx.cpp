// Linear layers and attention for processors that multiply bfloat16 by tiles (AMX).
//
// Sixteen rows cost what one does, so a step that verifies drafts takes as long as a plain one. Both
// are products of rows with panels (pairs, 32), the layout that AVX512-BF16 has as well: a weight is
// packed that way, keys and values are while they are read. AMX adds in another order than
// AVX512-BF16, so nothing of a model is computed by both.
#include "instructions.hpp"

#if defined(__AVX512BF16__) && defined(__AVX512BW__) && \
    (defined(__AMX_BF16__) || defined(SPECGATE_EMULATE_TILES))
#define SPECGATE_HAS_TILES
#include "coded_panel.hpp"
#include "paired_lines.hpp"
#include "tiles.hpp"
#endif

namespace specgate::kernels {

#if defined(SPECGATE_HAS_TILES)
namespace {

void multiply_panel(const Pair* panel, std::size_t in, const Pair* rows, std::size_t stride,
                    std::size_t count, float* sums) {
  multiply_tiles(panel, in, rows, stride, count, sums, kPanelWidth, true);
}

// All rows pass a piece of the panel, 32 KiB, after it was widened.
template <class Block>
void multiply_coded(const Block* panel, std::size_t pairs, const Pair* rows, std::size_t stride,
                    std::size_t count, float* sums) {
  constexpr std::size_t kPiece = 256, kPairs = Block::kInputs / 2;
  static_assert(kPanelWidth == kCodedRows && kPiece % kPairs == 0);
  alignas(64) Pair piece[kPiece * kCodedRows];
  for (std::size_t begin = 0; begin < pairs; begin += kPiece) {
    const std::size_t some = pairs - begin < kPiece ? pairs - begin : kPiece;
    widen_blocks(panel + begin / kPairs, some / kPairs, piece);
    multiply_tiles(piece, some, rows + begin, stride, count, sums, kPanelWidth, false, begin > 0);
  }
}

// Rows of queries that share what is packed of the cache.
constexpr std::size_t kRows = 96;
static_assert(kRows <= kMostQueries && kGroupTokens == kPanelWidth);

class TiledAttention {
 public:
  // See AttentionKernel.
  static void attend(const CacheView<BFloat16>& cache, std::size_t begin, std::size_t count,
                     const BFloat16* const* queries, float octaves, const std::size_t* visible,
                     std::size_t rows, const Partial& into) {
    Memory memory;
    const std::size_t padded = (count + kPanelWidth - 1) / kPanelWidth * kPanelWidth;
    const std::size_t query_pairs = cache.dim / 2;
    for (std::size_t row = 0; row < rows; ++row) {
      PairedLines::copy(queries[row], cache.dim, memory.inputs + row * query_pairs);
    }
    for (std::size_t token = 0; token < padded; token += kPanelWidth) {
      pack_keys(cache, begin + token, memory.panel);
      multiply_tiles(memory.panel, query_pairs, memory.inputs, query_pairs, rows,
                     memory.scores + token, kChunkTokens, false);
    }
    for (std::size_t row = 0; row < rows; ++row) {
      Weigh::weigh(memory.scores + row * kChunkTokens, visible[row], padded, octaves,
                   memory.inputs + row * kChunkPairs, into.most[row], into.total[row]);
    }
    for (std::size_t at = 0; at < cache.dim; at += kPanelWidth) {
      pack_values(cache, begin, count, padded, at, memory.panel);
      multiply_tiles(memory.panel, padded / 2, memory.inputs, kChunkPairs, rows,
                     into.values + at, cache.dim, false);
    }
  }

 private:
  using Weigh = Attend<16, 12, PairedLines>;
  static constexpr std::size_t kChunkPairs = kChunkTokens / 2;
  static constexpr std::size_t kMostPairs =
      kMostDim / 2 > kChunkPairs ? kMostDim / 2 : kChunkPairs;

  struct alignas(64) Memory {
    float scores[kRows * kChunkTokens];
    Pair inputs[kRows * kMostPairs];
    Pair panel[kMostPairs * kPanelWidth];
  };

  static void pack(const BFloat16* line, const BFloat16* next, Pair* to) {
    PairedLines::Values left, right;
    PairedLines::load(line, next, left, right);
    _mm512_store_si512(to, reinterpret_cast<__m512i>(left));
    _mm512_store_si512(to + kPanelWidth / 2, reinterpret_cast<__m512i>(right));
  }

  // (dim / 2, 32): the keys of 32 tokens from `token` on, a multiple of 32.
  static void pack_keys(const CacheView<BFloat16>& cache, std::size_t token, Pair* panel) {
    const BFloat16* line = cache.keys + block_of(cache, token) + token % cache.block_tokens;
    for (std::size_t pair = 0; pair < cache.dim / 2; ++pair, line += 2 * cache.block_tokens) {
      pack(line, line + cache.block_tokens, panel + pair * kPanelWidth);
    }
  }

  // (padded / 2, 32): 32 numbers of each of `count` values, and zeros behind the last.
  static void pack_values(const CacheView<BFloat16>& cache, std::size_t begin, std::size_t count,
                          std::size_t padded, std::size_t at, Pair* panel) {
    for (std::size_t token = 0; token < padded; token += 2, panel += kPanelWidth) {
      if (token >= count) {
        for (std::size_t i = 0; i < kPanelWidth; ++i) panel[i] = Pair{};
        continue;
      }
      const BFloat16* const line = cache.values + block_of(cache, begin + token) +
                                   (begin + token) % cache.block_tokens * cache.dim + at;
      pack(line, token + 1 < count ? line + cache.dim : nullptr, panel);
    }
  }

  static std::size_t block_of(const CacheView<BFloat16>& cache, std::size_t token) {
    return static_cast<std::size_t>(cache.blocks[token / cache.block_tokens]) * cache.block_stride;
  }
};

constexpr LinearKernel<Pair> kLinear{
    "amx",
    kPanelWidth,
    kMostRows,
    kTilePairs,
    multiply_panel,
    release_tiles,
    {multiply_coded<FourBits>, widen_blocks<FourBits, Pair>},
    {multiply_coded<EightBits>, widen_blocks<EightBits, Pair>}};
constexpr AttentionKernel<BFloat16> kAttention{"amx", kRows, TiledAttention::attend,
                                               release_tiles};

}  // namespace
const Instructions kAmx{{}, {}, {&kLinear}, {}, {&kAttention}, {}, {}};
#else
const Instructions kAmx{};
#endif

}  // namespace specgate::kernels
