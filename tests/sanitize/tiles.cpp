// Linear layers and attention by every kernel, AMX's tiles emulated: right, and by row.
//
//   tiles SECONDS SEED FOLDER    FOLDER is not used
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "attention.hpp"
#include "instructions.hpp"
#include "packed_weight.hpp"

namespace {

using namespace specgate::kernels;
using specgate::BFloat16;
using specgate::narrow;
using specgate::Pair;
using specgate::widen;
using Halves = std::vector<BFloat16>;
using Random = std::mt19937_64;

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "tiles: %s\n", what);
  std::exit(1);
}

std::size_t between(Random& random, std::size_t least, std::size_t most) {
  return std::uniform_int_distribution<std::size_t>(least, most)(random);
}

Halves numbers(Random& random, std::size_t count) {
  std::normal_distribution<float> normal;
  Halves found(count);
  for (BFloat16& number : found) narrow(normal(random), number);
  return found;
}

bool is_near(BFloat16 found, double expected, double scale) {
  return std::abs(widen(found) - expected) <= 0.01 * std::abs(expected) + 1e-3 * scale;
}

bool are_same(const BFloat16* left, const BFloat16* right, std::size_t count) {
  return std::memcmp(left, right, count * sizeof(BFloat16)) == 0;
}

void check_linear(Random& random, const LinearKernel<Pair>& kernel) {
  const std::size_t out = between(random, 1, 150), in = between(random, 1, 300);
  const std::size_t count = between(random, 1, between(random, 1, 20) == 1 ? 600 : 70);
  const std::size_t stride = in + between(random, 0, 3);
  const Halves weight = numbers(random, out * in), rows = numbers(random, count * stride);
  const Halves bias = numbers(random, out);
  const PackedWeight<Pair> packed(kernel, weight.data(), out, in);
  Halves together(count * out), alone(out);
  packed.multiply(rows.data(), stride, count, bias.data(), together.data());
  for (std::size_t row = 0; row < count; ++row) {
    packed.multiply(rows.data() + row * stride, stride, 1, bias.data(), alone.data());
    require(are_same(alone.data(), together.data() + row * out, out),
            "a row's products differ beside others");
  }
  for (std::size_t i = 0; i < 50; ++i) {
    const std::size_t row = between(random, 0, count - 1), column = between(random, 0, out - 1);
    double expected = widen(bias[column]);
    for (std::size_t k = 0; k < in; ++k) {
      expected += static_cast<double>(widen(rows[row * stride + k])) * widen(weight[column * in + k]);
    }
    require(is_near(together[row * out + column], expected, std::sqrt(static_cast<double>(in))),
            "a product is wrong");
  }
}

// A weight that is given in codes of four bits for some rows and of eight for the others: its
// products are those of the numbers, bit for bit.
void check_codes(Random& random, const LinearKernel<Pair>& kernel) {
  const std::size_t four = between(random, 0, 90), eight = between(random, four == 0, 90);
  const std::size_t out = four + eight, in = 32 * between(random, 1, 20);
  const std::size_t count = between(random, 1, 70);
  std::vector<std::uint8_t> codes(four * in / 2 + eight * in);
  for (std::uint8_t& code : codes) code = static_cast<std::uint8_t>(random());
  std::vector<float> scales(four * in / 32 + eight * in / 16), least(four * in / 32);
  for (float& scale : scales) scale = static_cast<float>(between(random, 1, 2000)) * 0x1p-18f;
  for (float& number : least) number = static_cast<float>(between(random, 0, 2000)) * -0x1p-15f;
  const std::uint8_t* const eight_codes = codes.data() + four * in / 2;
  const float* const eight_scales = scales.data() + four * in / 32;
  Halves weight(out * in);
  for (std::size_t i = 0; i < out * in; ++i) {
    const std::size_t k = i - four * in;
    if (i < four * in) {
      const int code = codes[i / 2] >> i % 2 * 4 & 15;
      narrow(static_cast<float>(code) * scales[i / 32] + least[i / 32], weight[i]);
    } else {
      const auto code = static_cast<std::int8_t>(eight_codes[k]);
      narrow(static_cast<float>(code) * eight_scales[k / 16], weight[i]);
    }
  }
  const std::vector<CodedRows> coded{
      {0, four, 4, codes.data(), scales.data(), least.data()},
      {four, eight, 8, eight_codes, eight_scales, nullptr}};
  const PackedWeight<Pair> plain(kernel, weight.data(), out, in);
  const PackedWeight<Pair> packed(kernel, weight.data(), out, in, coded);
  require(four < 32 || packed.bytes() < plain.bytes(), "codes were not taken");
  const Halves rows = numbers(random, count * in);
  Halves expected(count * out), found(count * out);
  plain.multiply(rows.data(), in, count, nullptr, expected.data());
  packed.multiply(rows.data(), in, count, nullptr, found.data());
  require(are_same(expected.data(), found.data(), count * out), "codes change a product");
}

// Requests over a cache in vLLM's layout for vectors, and what their queries get.
struct World {
  const AttentionKernel<BFloat16>& kernel;
  std::size_t dim, kv_heads, group, block_tokens, most_blocks;
  std::vector<std::int32_t> starts{0}, lengths, blocks;
  Halves keys, values, queries;

  World(Random& random, const AttentionKernel<BFloat16>& by)
      : kernel(by),
        dim(32 * between(random, 1, 4)),
        kv_heads(between(random, 1, 2)),
        group(between(random, 1, 3)),
        block_tokens(32 * between(random, 1, 3)),
        most_blocks(0) {
    const std::size_t requests = between(random, 1, 3);
    for (std::size_t i = 0; i < requests; ++i) {
      const std::size_t length = between(random, 1, between(random, 1, 4) == 1 ? 600 : 90);
      const std::size_t asked = between(random, 1, std::min<std::size_t>(length, 60));
      lengths.push_back(static_cast<std::int32_t>(length));
      starts.push_back(starts.back() + static_cast<std::int32_t>(asked));
      most_blocks = std::max(most_blocks, (length + block_tokens - 1) / block_tokens);
    }
    blocks.resize(requests * most_blocks);
    for (std::size_t i = 0; i < blocks.size(); ++i) blocks[i] = static_cast<std::int32_t>(i);
    std::shuffle(blocks.begin(), blocks.end(), random);
    keys = numbers(random, blocks.size() * block_stride());
    values = numbers(random, blocks.size() * block_stride());
    queries = numbers(random, static_cast<std::size_t>(starts.back()) * heads() * dim);
    spoil();
  }

  std::size_t heads() const { return kv_heads * group; }
  std::size_t head_stride() const { return block_tokens * dim; }
  std::size_t block_stride() const { return kv_heads * head_stride(); }

  // What lies behind the end of a request is never to count.
  void spoil() {
    for (std::size_t request = 0; request < lengths.size(); ++request) {
      for (auto token = static_cast<std::size_t>(lengths[request]);
           token < most_blocks * block_tokens; ++token) {
        for (std::size_t head = 0; head < kv_heads; ++head) {
          for (std::size_t i = 0; i < dim; ++i) {
            keys[key_at(request, head, token, i)].bits = 0x7fc0;
            values[value_at(request, head, token, i)].bits = 0x7fc0;
          }
        }
      }
    }
  }

  std::size_t head_at(std::size_t request, std::size_t head, std::size_t token) const {
    const auto block = static_cast<std::size_t>(blocks[request * most_blocks + token / block_tokens]);
    return block * block_stride() + head * head_stride();
  }
  std::size_t key_at(std::size_t request, std::size_t head, std::size_t token,
                     std::size_t i) const {
    return head_at(request, head, token) + i * block_tokens + token % block_tokens;
  }
  std::size_t value_at(std::size_t request, std::size_t head, std::size_t token,
                       std::size_t i) const {
    return head_at(request, head, token) + token % block_tokens * dim + i;
  }

  // The queries of [first, end) of a request, as if those behind them were not there yet.
  void attend_to(std::size_t request, std::size_t first, std::size_t end, BFloat16* to) {
    const std::int32_t asked = starts[request + 1] - starts[request];
    const std::int32_t some[] = {0, static_cast<std::int32_t>(end - first)};
    const std::int32_t length = lengths[request] - (asked - static_cast<std::int32_t>(end));
    run({some, &length, 1, blocks.data() + request * most_blocks, most_blocks},
        (static_cast<std::size_t>(starts[request]) + first) * heads() * dim, to);
  }
  void attend_all(BFloat16* to) {
    run({starts.data(), lengths.data(), lengths.size(), blocks.data(), most_blocks}, 0, to);
  }

  double expected(std::size_t request, std::size_t query, std::size_t head, std::size_t i) const {
    const auto asked = static_cast<std::size_t>(starts[request + 1] - starts[request]);
    const auto seen = static_cast<std::size_t>(lengths[request]) - (asked - query - 1);
    const BFloat16* const from =
        queries.data() + ((static_cast<std::size_t>(starts[request]) + query) * heads() + head) * dim;
    double total = 0.0, sum = 0.0;
    for (std::size_t token = 0; token < seen; ++token) {
      double score = 0.0;
      for (std::size_t k = 0; k < dim; ++k) {
        score += static_cast<double>(widen(from[k])) * widen(keys[key_at(request, head / group, token, k)]);
      }
      const double weight = std::exp(score * scale());
      total += weight;
      sum += weight * widen(values[value_at(request, head / group, token, i)]);
    }
    return sum / total;
  }

  float scale() const { return 1.0f / std::sqrt(static_cast<float>(dim)); }

 private:
  void run(const Requests& requests, std::size_t from, BFloat16* to) {
    const std::size_t width = heads() * dim;
    const auto tokens = static_cast<std::size_t>(requests.starts[requests.count]);
    attend(kernel, requests,
           PagedCache<BFloat16>{keys.data(), values.data(), blocks.size(), block_stride(),
                                head_stride(), block_tokens},
           Queries<BFloat16>{queries.data() + from, width, to, width, tokens, heads(), kv_heads,
                             dim, scale()});
  }
};

void check_attention(Random& random, const AttentionKernel<BFloat16>& kernel) {
  World world(random, kernel);
  const std::size_t size = world.heads() * world.dim;
  Halves together(world.queries.size()), part(world.queries.size());
  world.attend_all(together.data());
  for (std::size_t request = 0; request < world.lengths.size(); ++request) {
    const auto start = static_cast<std::size_t>(world.starts[request]);
    const auto asked = static_cast<std::size_t>(world.starts[request + 1]) - start;
    const std::size_t first = between(random, 0, asked - 1), end = between(random, first + 1, asked);
    world.attend_to(request, first, end, part.data());
    require(are_same(part.data(), together.data() + (start + first) * size, (end - first) * size),
            "what queries get differs in other company");
    const std::size_t query = between(random, 0, asked - 1), i = between(random, 0, world.dim - 1);
    const std::size_t head = between(random, 0, world.heads() - 1);
    require(is_near(together[(start + query) * size + head * world.dim + i],
                    world.expected(request, query, head, i), 10.0),
            "what a query gets is wrong");
  }
}

}  // namespace

int main(int count, char** arguments) {
  require(count == 4, "usage: tiles SECONDS SEED FOLDER");
  const std::chrono::duration<double> seconds(std::atof(arguments[1]));
  Random random(std::strtoull(arguments[2], nullptr, 10));
  const auto began = std::chrono::steady_clock::now();
  std::vector<const Instructions*> sets = find_instructions();
  sets.push_back(&kAmx);
  std::size_t rounds = 0;
  do {
    for (const Instructions* const set : sets) {
      const auto* const pairs = kernel_of<LinearKernel<Pair>>(*set);
      if (pairs != nullptr) {
        check_linear(random, *pairs);
        check_codes(random, *pairs);
      }
      check_attention(random, *kernel_of<AttentionKernel<BFloat16>>(*set));
    }
    ++rounds;
  } while (std::chrono::steady_clock::now() - began < seconds);
  std::printf("%zu rounds of %zu instruction sets\n", rounds, sets.size());
  return 0;
}
