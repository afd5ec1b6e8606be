// AMX's instructions for bfloat16 in plain C++, so that what is written with them runs, and is seen
// by the sanitizers, on processors that lack them. After the Intel SDM, volume 2.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>

#undef _tile_loadconfig
#undef _tile_release
#undef _tile_zero
#undef _tile_loadd
#undef _tile_stored
#undef _tile_dpbf16ps

namespace emulated {

struct Tile {
  std::size_t lines, line_bytes;
  alignas(64) unsigned char bytes[16][64];
};

inline thread_local Tile tiles[8];
inline thread_local bool is_configured = false;

inline void loadconfig(const void* from) {
  const auto* const config = static_cast<const unsigned char*>(from);
  assert(config[0] == 1);
  for (std::size_t i = 0; i < 8; ++i) {
    std::uint16_t line_bytes;
    std::memcpy(&line_bytes, config + 16 + 2 * i, sizeof line_bytes);
    tiles[i] = {config[48 + i], line_bytes, {}};
    assert(tiles[i].lines >= 1 && tiles[i].lines <= 16 && line_bytes >= 4 && line_bytes <= 64);
  }
  is_configured = true;
}

inline void release() { is_configured = false; }

inline void zero(std::size_t tile) {
  assert(is_configured);
  std::memset(tiles[tile].bytes, 0, sizeof tiles[tile].bytes);
}

inline void load(std::size_t tile, const void* from, std::size_t stride) {
  zero(tile);
  for (std::size_t line = 0; line < tiles[tile].lines; ++line) {
    std::memcpy(tiles[tile].bytes[line], static_cast<const char*>(from) + line * stride,
                tiles[tile].line_bytes);
  }
}

inline void store(std::size_t tile, void* to, std::size_t stride) {
  assert(is_configured);
  for (std::size_t line = 0; line < tiles[tile].lines; ++line) {
    std::memcpy(static_cast<char*>(to) + line * stride, tiles[tile].bytes[line],
                tiles[tile].line_bytes);
  }
}

inline float widened(const unsigned char* from) {
  std::uint16_t half;
  std::memcpy(&half, from, sizeof half);
  const std::uint32_t bits = static_cast<std::uint32_t>(half) << 16;
  float number;
  std::memcpy(&number, &bits, sizeof number);
  return number;
}

inline void multiply(std::size_t sums, std::size_t left, std::size_t right) {
  assert(is_configured && tiles[sums].lines == tiles[left].lines);
  assert(tiles[sums].line_bytes == tiles[right].line_bytes);
  assert(tiles[left].line_bytes / 4 == tiles[right].lines);
  for (std::size_t row = 0; row < tiles[left].lines; ++row) {
    for (std::size_t column = 0; column < tiles[right].line_bytes / 4; ++column) {
      float sum;
      unsigned char* const at = tiles[sums].bytes[row] + 4 * column;
      std::memcpy(&sum, at, sizeof sum);
      for (std::size_t i = 0; i < 2 * tiles[right].lines; ++i) {
        sum += widened(tiles[left].bytes[row] + 2 * i) *
               widened(tiles[right].bytes[i / 2] + 4 * column + 2 * (i % 2));
      }
      std::memcpy(at, &sum, sizeof sum);
    }
  }
}

}  // namespace emulated

#define _tile_loadconfig emulated::loadconfig
#define _tile_release emulated::release
#define _tile_zero emulated::zero
#define _tile_loadd emulated::load
#define _tile_stored emulated::store
#define _tile_dpbf16ps emulated::multiply
