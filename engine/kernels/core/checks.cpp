#include "checks.hpp"

#if defined(SPECGATE_CHECKED)

#include <sys/mman.h>
#include <unistd.h>

#include <stdexcept>
#include <string>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace specgate::kernels {
namespace {

template <class Error>
void require(bool holds, const std::string& what) {
  if (!holds) throw Error(what);
}

// Whether all pages of a range are mapped: msync fails with ENOMEM if one is not.
bool is_mapped(std::uintptr_t first, std::size_t bytes) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const std::uintptr_t begin = first / page * page;
  return ::msync(reinterpret_cast<void*>(begin), first + bytes - begin, MS_ASYNC) == 0;
}

// Of (count, width), `stride` apart.
std::size_t size_of(std::size_t count, std::size_t stride, std::size_t width) {
  return count == 0 ? 0 : (count - 1) * stride + width;
}

}  // namespace

template <class Number>
void check_numbers(const Number* from, std::size_t count, const char* what) {
  using Wrong = std::invalid_argument;
  if (count == 0) return;
  const auto first = reinterpret_cast<std::uintptr_t>(from);
  const std::size_t bytes = count * sizeof(Number);
  require<Wrong>(first != 0, std::string(what) + ": no address");
  require<Wrong>(first % alignof(Number) == 0, std::string(what) + ": misaligned address");
  require<Wrong>(is_mapped(first, bytes), std::string(what) + ": not this process's memory");
#if defined(__SANITIZE_ADDRESS__)
  // ASan's own interface takes no const pointer.
  void* const poisoned = __asan_region_is_poisoned(const_cast<Number*>(from), bytes);
  require<Wrong>(poisoned == nullptr, std::string(what) + ": memory that may not be used");
#endif
}

namespace {

void check_request(const Requests& requests, std::size_t request, std::size_t block_tokens,
                   std::size_t blocks) {
  using Range = std::out_of_range;
  const std::string name = "request " + std::to_string(request) + ": ";
  const std::int32_t first = requests.starts[request], end = requests.starts[request + 1];
  require<Range>(first >= 0 && first <= end, name + "its queries end before they begin");
  if (first == end) return;
  const std::int32_t length = requests.lengths[request];
  require<Range>(length >= 0, name + "its length is negative");
  // A request that is shorter than its queries sees a token (vLLM's dummy steps).
  const auto tokens = static_cast<std::size_t>(length < 1 ? 1 : length);
  const std::size_t used = (tokens + block_tokens - 1) / block_tokens;
  require<Range>(used <= requests.blocks_stride, name + "it is longer than its block table");
  const std::int32_t* const table = requests.blocks + request * requests.blocks_stride;
  check_numbers(table, used, "blocks");
  for (std::size_t i = 0; i < used; ++i) {
    require<Range>(table[i] >= 0 && static_cast<std::size_t>(table[i]) < blocks,
                   name + "block " + std::to_string(table[i]) + " is outside of the cache of " +
                       std::to_string(blocks));
  }
}

}  // namespace

template <class Number>
void check(const Requests& requests, const PagedCache<Number>& cache,
           const Queries<Number>& queries) {
  using Wrong = std::invalid_argument;
  const std::size_t width = queries.heads * queries.dim, head = cache.block_tokens * queries.dim;
  require<Wrong>(queries.kv_heads > 0 && queries.heads % queries.kv_heads == 0 &&
                     queries.dim % kGroupTokens == 0 && queries.dim <= kMostDim &&
                     cache.block_tokens > 0 && cache.block_tokens % kGroupTokens == 0,
                 "heads, dim or block_tokens: no kernel supports them");
  require<Wrong>(cache.head_stride >= head &&
                     cache.block_stride >= (queries.kv_heads - 1) * cache.head_stride + head,
                 "cache: its strides overlap");
  require<Wrong>(queries.from_stride >= width && queries.to_stride >= width,
                 "queries and outputs: their strides overlap");
  const std::size_t used = size_of(queries.kv_heads, cache.head_stride, head);
  check_numbers(cache.keys, size_of(cache.blocks, cache.block_stride, used), "keys");
  check_numbers(cache.values, size_of(cache.blocks, cache.block_stride, used), "values");
  check_numbers(queries.from, size_of(queries.tokens, queries.from_stride, width), "queries");
  check_numbers(queries.to, size_of(queries.tokens, queries.to_stride, width), "outputs");
  check_numbers(requests.starts, requests.count + 1, "starts");
  check_numbers(requests.lengths, requests.count, "lengths");
  for (std::size_t request = 0; request < requests.count; ++request) {
    check_request(requests, request, cache.block_tokens, cache.blocks);
  }
  const std::int32_t queried = requests.starts[requests.count];
  require<std::out_of_range>(queried >= 0 && static_cast<std::size_t>(queried) <= queries.tokens,
                             "starts: the step has fewer queries");
}

template void check_numbers(const float*, std::size_t, const char*);
template void check_numbers(const BFloat16*, std::size_t, const char*);
template void check(const Requests&, const PagedCache<float>&, const Queries<float>&);
template void check(const Requests&, const PagedCache<BFloat16>&, const Queries<BFloat16>&);

}  // namespace specgate::kernels

#endif
