// What kernels refuse in a checked build: ids, sizes and addresses that lie outside.
//
//   checks SECONDS SEED FOLDER    none of them is used: the list is short
#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "checks.hpp"
#include "instructions.hpp"

namespace {

using namespace specgate::kernels;
using specgate::BFloat16;

constexpr std::size_t kDim = 64, kBlocks = 6, kTokens = 32, kMost = 3;
constexpr std::size_t kHead = kTokens * kDim, kBlock = 2 * kHead;  // two key heads
constexpr std::size_t kWidth = 4 * kDim;                           // four query heads

void require(bool holds, const std::string& what) {
  if (holds) return;
  std::fprintf(stderr, "checks: %s\n", what.c_str());
  std::exit(1);
}

// Two requests, of 70 and 33 tokens, with three queries and one.
struct Step {
  std::vector<std::int32_t> starts{0, 3, 4}, lengths{70, 33}, blocks{4, 0, 5, 2, 1, -1};
  std::vector<BFloat16> keys = std::vector<BFloat16>(kBlocks * kBlock), values = keys;
  std::vector<BFloat16> queries = std::vector<BFloat16>(4 * kWidth), outputs = queries;
  Requests requests{starts.data(), lengths.data(), 2, blocks.data(), kMost};
  PagedCache<BFloat16> cache{keys.data(), values.data(), kBlocks, kBlock, kHead, kTokens};
  Queries<BFloat16> asked{queries.data(), kWidth, outputs.data(), kWidth, 4, 4, 2, kDim, 0.125f};

  void attend() const {
    for (const auto* kernel : find_kernels<AttentionKernel<BFloat16>>()) {
      specgate::kernels::attend(*kernel, requests, cache, asked);
    }
  }
};

template <class Error>
void refuses(const std::string& expected, const std::function<void(Step&)>& change) {
  Step step;
  change(step);
  try {
    step.attend();
  } catch (const Error& error) {
    const std::string what = error.what();
    require(what.find(expected) != std::string::npos, "expected " + expected + ", got " + what);
    return;
  }
  require(false, "not refused: " + expected);
}

void refuse_steps() {
  using Range = std::out_of_range;
  using Wrong = std::invalid_argument;
  refuses<Range>("request 0: block 6 is outside", [](Step& s) { s.blocks[1] = 6; });
  refuses<Range>("request 1: block -1 is outside", [](Step& s) { s.blocks[4] = -1; });
  refuses<Range>("request 1: it is longer than", [](Step& s) { s.lengths[1] = 97; });
  refuses<Range>("request 0: its length is negative", [](Step& s) { s.lengths[0] = -1; });
  refuses<Range>("request 1: its queries end", [](Step& s) { s.starts[2] = 2; });
  refuses<Range>("request 0: its queries end", [](Step& s) { s.starts[0] = -1; });
  refuses<Range>("the step has fewer queries", [](Step& s) { s.starts[2] = 5; });
  refuses<Wrong>("its strides overlap", [](Step& s) { s.cache.head_stride = kHead - 1; });
  refuses<Wrong>("its strides overlap", [](Step& s) { s.cache.block_stride = kBlock - 1; });
  refuses<Wrong>("their strides overlap", [](Step& s) { s.asked.to_stride = kWidth - 1; });
  refuses<Wrong>("no kernel supports", [](Step& s) { s.cache.block_tokens = 31; });
  refuses<Wrong>("no kernel supports", [](Step& s) { s.asked.kv_heads = 3; });
  refuses<Wrong>("values: no address", [](Step& s) { s.cache.values = nullptr; });
  refuses<Wrong>("keys: misaligned", [](Step& s) {
    s.cache.keys = reinterpret_cast<BFloat16*>(
        reinterpret_cast<std::uintptr_t>(s.keys.data()) + 1);
  });
  // Mapped, but not of the cache: one block more than it has.
  refuses<Wrong>("keys: ", [](Step& s) { s.cache.blocks = kBlocks + 1; });
  refuses<Wrong>("outputs: ", [](Step& s) { s.asked.to = s.outputs.data() + 1; });
}

void refuse_unmapped_memory() {
  void* const page = ::mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  require(page != MAP_FAILED && ::munmap(page, 4096) == 0, "no page");
  refuses<std::invalid_argument>("queries: not this process's memory", [page](Step& s) {
    s.asked.from = static_cast<const BFloat16*>(page);
  });
}

void refuse_products() {
  const auto kernels = find_kernels<LinearKernel<BFloat16>>();
  std::vector<BFloat16> weight(8 * 6), rows(3 * 6), outputs(3 * 8);
  const PackedWeight<BFloat16> packed(*kernels.front(), weight.data(), 8, 6);
  packed.multiply(rows.data(), 6, 3, nullptr, outputs.data());
  for (const auto& wrong : std::vector<std::function<void()>>{
           [&] { packed.multiply(rows.data(), 7, 3, nullptr, outputs.data()); },
           [&] { packed.multiply(rows.data(), 6, 3, rows.data() + 11, outputs.data()); },
           [&] { packed.multiply(rows.data(), 6, 3, nullptr, outputs.data() + 1); },
           [&] { PackedWeight<BFloat16>(*kernels.front(), weight.data(), 9, 6); }}) {
    try {
      wrong();
    } catch (const std::invalid_argument&) {
      continue;
    }
    require(false, "a product reads or writes other memory");
  }
}

}  // namespace

int main() {
  static_assert(kIsChecked);
  const std::size_t kernels = find_kernels<AttentionKernel<BFloat16>>().size();
  require(kernels > 0, "no kernel");
  Step().attend();
  refuse_steps();
  refuse_unmapped_memory();
  refuse_products();
  std::printf("%zu kernels\n", kernels);
}
