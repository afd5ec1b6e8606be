// Products by the tiles of AMX: up to 32 rows with a panel of 32 columns.
//
// A tile is 16 lines of 64 bytes. TDPBF16PS adds to 16 x 16 sums the products of 16 rows of 32
// inputs with 16 columns, an input after the other, however many of the 16 rows are in use. So a
// row's sums do not depend on the rows beside it (Intel SDM, volume 2, TDPBF16PS).
#pragma once

#include <cstddef>
#include <cstdint>

#include "bfloat16.hpp"

#if defined(SPECGATE_EMULATE_TILES)
#include "emulated_tiles.hpp"  // in tests/sanitize, for processors without AMX
#else
#include <immintrin.h>
#endif

namespace specgate::kernels {
namespace {

constexpr std::size_t kTileRows = 16;
constexpr std::size_t kTilePairs = 16;
constexpr std::size_t kPanelWidth = 32;

// The intrinsics of GCC 12 do not say that they read memory: what was written before must be there.
inline void see_memory() { asm volatile("" ::: "memory"); }

// The tiles of a thread, as they are set up at the moment: 0 to 3 are sums (rows 0 to 15 and then
// 16 to 31, each with the left and the right half of a panel), 4 and 5 rows, 6 and 7 the halves.
class TileState {
 public:
  // Sets the tiles up for this many rows, 1 to 32.
  void shape(std::size_t rows) {
    if (rows == rows_) return;
    struct alignas(64) {
      std::uint8_t palette = 1;
      std::uint8_t start_row = 0;
      std::uint8_t reserved[14] = {};
      std::uint16_t line_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
      std::uint8_t lines[16] = {16, 16, 16, 16, 16, 16, 16, 16};
    } config;
    static_assert(sizeof config == 64);
    const auto upper = static_cast<std::uint8_t>(rows < kTileRows ? rows : kTileRows);
    config.lines[0] = config.lines[1] = config.lines[4] = upper;
    if (rows > kTileRows) {
      config.lines[2] = config.lines[3] = config.lines[5] =
          static_cast<std::uint8_t>(rows - kTileRows);
    }
    see_memory();
    _tile_loadconfig(&config);
    rows_ = rows;
  }

  // Gives the tiles back. A thread that keeps them set up makes every switch of threads dearer.
  void release() {
    if (rows_ == 0) return;
    _tile_release();
    rows_ = 0;
  }

 private:
  std::size_t rows_ = 0;
};

thread_local TileState tiles;

// Writes the sums (count, 32), `step` apart, of `count` rows, `stride` pairs apart, and a panel
// (pairs, 32); with `adds` they go on from what is there. `pairs` is a multiple of 16. If `fetch` is
// set, the panel behind this one is fetched meanwhile, 8 KiB ahead.
inline void multiply_tiles(const Pair* panel, std::size_t pairs, const Pair* rows,
                           std::size_t stride, std::size_t count, float* sums, std::size_t step,
                           bool fetch, bool adds = false) {
  constexpr std::size_t kLineBytes = kPanelWidth * sizeof(Pair);
  constexpr std::size_t kAhead = 8192 / sizeof(Pair);
  constexpr std::size_t kCacheLine = 64 / sizeof(Pair);
  see_memory();
  for (std::size_t first = 0; first < count; first += 2 * kTileRows) {
    const std::size_t some = count - first < 2 * kTileRows ? count - first : 2 * kTileRows;
    const bool two = some > kTileRows;
    const Pair* const upper = rows + first * stride;
    const Pair* const lower = upper + kTileRows * stride;
    float* const into = sums + first * step;
    const std::size_t bytes = step * sizeof(float);
    tiles.shape(some);
    if (adds) {
      _tile_loadd(0, into, bytes);
      _tile_loadd(1, into + kPanelWidth / 2, bytes);
      if (two) {
        _tile_loadd(2, into + kTileRows * step, bytes);
        _tile_loadd(3, into + kTileRows * step + kPanelWidth / 2, bytes);
      }
    } else {
      _tile_zero(0);
      _tile_zero(1);
      if (two) {
        _tile_zero(2);
        _tile_zero(3);
      }
    }
    for (std::size_t pair = 0; pair < pairs; pair += kTilePairs) {
      const Pair* const at = panel + pair * kPanelWidth;
      if (fetch && first == 0) {
        for (std::size_t line = 0; line < kTilePairs * kPanelWidth; line += kCacheLine) {
          __builtin_prefetch(at + kAhead + line);
        }
      }
      _tile_loadd(6, at, kLineBytes);
      _tile_loadd(7, at + kPanelWidth / 2, kLineBytes);
      _tile_loadd(4, upper + pair, stride * sizeof(Pair));
      _tile_dpbf16ps(0, 4, 6);
      _tile_dpbf16ps(1, 4, 7);
      if (two) {
        _tile_loadd(5, lower + pair, stride * sizeof(Pair));
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
      }
    }
    _tile_stored(0, into, bytes);
    _tile_stored(1, into + kPanelWidth / 2, bytes);
    if (two) {
      _tile_stored(2, into + kTileRows * step, bytes);
      _tile_stored(3, into + kTileRows * step + kPanelWidth / 2, bytes);
    }
  }
  see_memory();
}

inline void release_tiles() { tiles.release(); }

}  // namespace
}  // namespace specgate::kernels
