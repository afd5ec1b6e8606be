// Prefetching of whole objects.
#pragma once

#include <cstddef>

namespace specgate::suffix {

inline constexpr std::size_t kLineBytes = 64;

// Prefetches the cache lines from `begin` to `end`.
inline void prefetch_lines(const void* begin, const void* end) {
  const auto* line = static_cast<const char*>(begin);
  for (; line < static_cast<const char*>(end); line += kLineBytes) __builtin_prefetch(line);
}

}  // namespace specgate::suffix
