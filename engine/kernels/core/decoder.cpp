#include "decoder.hpp"

#include <omp.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include "checks.hpp"

namespace specgate::kernels {
namespace {

// Columns of a row that one thread activates at a time.
constexpr std::size_t kColumns = 256;
static_assert(kColumns % kRowUnit == 0);

template <class Value>
void grow(std::vector<Value>& memory, std::size_t count) {
  if (memory.size() < count) memory = std::vector<Value>(count);
}

template <class Error>
void require(bool holds, const std::string& what) {
  if (!holds) throw Error(what);
}

template <class Weight>
void check_shape(const Linear<Weight>& linear, std::size_t out, std::size_t in) {
  require<std::invalid_argument>(linear.weight->out() == out && linear.weight->in() == in,
                                 "a weight has another shape than its layer");
}

// Numbers and inputs differ only where bfloat16 is widened.
template <class Weight>
constexpr bool kIsWidened = std::is_same_v<Weight, BFloat16>;

}  // namespace

template <class Weight>
void ProductRows<Weight>::reserve(std::size_t rows, const PackedWeight<Weight>& weight) {
  stride_ = weight.inputs();
  in_ = weight.in();
  grow(inputs_, rows * stride_);
  if constexpr (kIsWidened<Weight>) grow(numbers_, rows * in_);
}

template <class Weight>
std::size_t ProductRows<Weight>::row_stride() const {
  if constexpr (kIsWidened<Weight>) return in_;
  return stride_ * sizeof(Input) / sizeof(Number);
}

template <class Weight>
NumberOf<Weight>* ProductRows<Weight>::row(std::size_t row) {
  if constexpr (kIsWidened<Weight>) return numbers_.data() + row * row_stride();
  return reinterpret_cast<Number*>(inputs_.data()) + row * row_stride();
}

template <class Weight>
void ProductRows<Weight>::convert(std::size_t row, std::size_t begin, std::size_t end) {
  if constexpr (kIsWidened<Weight>) {
    widen(numbers_.data() + row * in_ + begin, end - begin,
          inputs_.data() + row * stride_ + begin);
  }
}

template <class Weight>
Decoder<Weight>::Decoder(const Architecture& sizes, const Tables<Number>& tables,
                         const AttentionKernel<Number>& attention, const RowKernel<Number>& rows)
    : sizes_(sizes), tables_(tables), attention_(attention), rows_(rows) {
  require<std::invalid_argument>(
      sizes.hidden % kRowUnit == 0 && sizes.intermediate % kRowUnit == 0 &&
          sizes.dim % kGroupTokens == 0 && sizes.dim <= kMostDim && sizes.kv_heads > 0 &&
          sizes.heads % sizes.kv_heads == 0,
      "no kernel supports these sizes");
}

template <class Weight>
void Decoder<Weight>::add(const Layer<Weight>& layer) {
  const std::size_t queries = sizes_.heads * sizes_.dim;
  check_shape(layer.qkv, queries + 2 * sizes_.kv_heads * sizes_.dim, sizes_.hidden);
  check_shape(layer.out, sizes_.hidden, queries);
  check_shape(layer.gate_up, 2 * sizes_.intermediate, sizes_.hidden);
  check_shape(layer.down, sizes_.hidden, sizes_.intermediate);
  layers_.push_back(layer);
}

template <class Weight>
void Decoder<Weight>::bind(std::vector<PagedCache<Number>> caches) {
  require<std::invalid_argument>(caches.size() == layers_.size(), "a cache for each layer");
  caches_ = std::move(caches);
}

template <class Weight>
void Decoder<Weight>::check_step(const DecoderStep<Number>& step) const {
  using Range = std::out_of_range;
  const auto is_below = [](std::int64_t number, std::size_t limit) {
    return number >= 0 && static_cast<std::size_t>(number) < limit;
  };
  for (std::size_t i = 0; i < step.tokens; ++i) {
    require<Range>(step.ids == nullptr || is_below(step.ids[i], tables_.vocabulary),
                   "a token id is outside of the vocabulary");
    require<Range>(is_below(step.positions[i], tables_.positions),
                   "a position is outside of the table");
  }
  if (step.requests.count == 0) return;
  require<std::invalid_argument>(!caches_.empty(), "there is no cache yet");
  const auto attended = static_cast<std::size_t>(step.requests.starts[step.requests.count]);
  require<Range>(attended <= step.tokens, "the step has fewer tokens than its requests");
  const std::size_t slots = caches_.front().blocks * caches_.front().block_tokens;
  for (std::size_t i = 0; i < attended; ++i) {
    require<Range>(step.slots[i] < 0 || is_below(step.slots[i], slots),
                   "a slot is outside of the cache");
  }
}

template <class Weight>
void Decoder<Weight>::reserve(std::size_t tokens) {
  const Layer<Weight>& layer = layers_.front();
  const std::size_t block = std::min(tokens, layer.qkv.weight->most_rows());
  grow(residual_, tokens * sizes_.hidden);
  grow(delta_, tokens * sizes_.hidden);
  grow(qkv_, tokens * layer.qkv.weight->out());
  attended_.reserve(tokens, *layer.out.weight);
  normed_.reserve(block, *layer.qkv.weight);
  gated_.reserve(block, *layer.down.weight);
  grow(gate_up_, block * 2 * sizes_.intermediate);
}

// What a member of the team does. Members share rows, heads, columns or panels; where one needs
// what another has written, they meet. Nothing here allocates or throws.
template <class Weight>
struct Decoder<Weight>::Pass {
  Decoder& decoder;
  const DecoderStep<Number>& step;
  const std::vector<Tap<Number>>& taps;
  const AttentionPlan<Number>& plan;
  std::size_t attended;  // tokens
  Team::Member member;

  void run() {
    embed();
    for (std::size_t i = 0; i < decoder.layers_.size(); ++i) {
      attend(i);
      transform(decoder.layers_[i]);
    }
    finish();
    decoder.layers_.front().qkv.weight->release();
    plan.release();
  }

  // The residual stream of each token begins as its embedding.
  void embed() {
    const std::size_t hidden = decoder.sizes_.hidden;
    for (std::size_t row = member.begin(step.tokens); row < member.end(step.tokens); ++row) {
      const Number* const from =
          step.ids == nullptr
              ? step.embeddings + row * hidden
              : decoder.tables_.embeddings + static_cast<std::size_t>(step.ids[row]) * hidden;
      std::copy_n(from, hidden, residual(row));
      tap(0, row);
    }
    member.meet();
  }

  // Queries, keys and values, and attention over the cache.
  void attend(std::size_t index) {
    const Layer<Weight>& layer = decoder.layers_[index];
    for_blocks([&](Block block) {
      normalise(block, layer.attention_norm, index > 0, index);
      multiply(layer.qkv, decoder.normed_, 0, block, qkv(block.first));
      place_heads(layer, index, block);
    });
    member.meet();
    if (attended > 0) plan.attend(member, decoder.caches_[index]);
    clear_unattended();
    member.meet();
  }

  // What follows attention: its output layer and the MLP.
  void transform(const Layer<Weight>& layer) {
    for_blocks([&](Block block) {
      for (std::size_t row = begin(block); row < end(block); ++row) {
        decoder.attended_.convert(row, 0, layer.out.weight->in());
      }
      member.meet();
      multiply(layer.out, decoder.attended_, block.first, block, delta(block.first));
      normalise(block, layer.mlp_norm, true, kNone);
      multiply(layer.gate_up, decoder.normed_, 0, block, decoder.gate_up_.data());
      activate(block);
      multiply(layer.down, decoder.gated_, 0, block, delta(block.first));
    });
  }

  void finish() {
    const Architecture& sizes = decoder.sizes_;
    for (std::size_t row = member.begin(step.tokens); row < member.end(step.tokens); ++row) {
      decoder.rows_.norm(residual(row), delta(row), decoder.tables_.norm, sizes.epsilon,
                         sizes.hidden, step.outputs + row * sizes.hidden);
      tap(decoder.layers_.size(), row);
    }
  }

  // Adds to the residual stream what the last product gave, and writes the norms of a block.
  void normalise(Block block, const Number* weight, bool adds, std::size_t index) {
    const Architecture& sizes = decoder.sizes_;
    for (std::size_t row = begin(block); row < end(block); ++row) {
      const std::size_t to = row - block.first;
      decoder.rows_.norm(residual(row), adds ? delta(row) : nullptr, weight, sizes.epsilon,
                         sizes.hidden, decoder.normed_.row(to));
      decoder.normed_.convert(to, 0, sizes.hidden);
      if (adds && index != kNone) tap(index, row);
    }
    member.meet();
  }

  void multiply(const Linear<Weight>& linear, const ProductRows<Weight>& rows, std::size_t first,
                Block block, Number* to) {
    linear.weight->multiply_part(member, rows.inputs(first), rows.stride(),
                                 block.end - block.first, linear.bias, to);
    member.meet();
  }

  // Norms and rotates queries and keys, and writes keys and values to the cache.
  void place_heads(const Layer<Weight>& layer, std::size_t index, Block block) {
    const std::size_t heads = decoder.sizes_.heads + 2 * decoder.sizes_.kv_heads;
    const std::size_t count = (block.end - block.first) * heads;
    for (std::size_t i = member.begin(count); i < member.end(count); ++i) {
      place_head(layer, index, block.first + i / heads, i % heads);
    }
  }

  void place_head(const Layer<Weight>& layer, std::size_t index, std::size_t row,
                  std::size_t head) {
    const Architecture& sizes = decoder.sizes_;
    Number* const numbers = qkv(row) + head * sizes.dim;
    const bool is_query = head < sizes.heads, is_value = head >= sizes.heads + sizes.kv_heads;
    if (!is_value) {
      const Number* const norm = is_query ? layer.query_norm : layer.key_norm;
      if (norm != nullptr) {
        decoder.rows_.norm(numbers, nullptr, norm, sizes.epsilon, sizes.dim, numbers);
      }
      const auto position = static_cast<std::size_t>(step.positions[row]);
      decoder.rows_.rotate(numbers, decoder.tables_.angles + position * sizes.dim, sizes.dim);
    }
    if (is_query || row >= attended || step.slots[row] < 0) return;
    const PagedCache<Number>& cache = decoder.caches_[index];
    const auto slot = static_cast<std::size_t>(step.slots[row]);
    const std::size_t within = slot % cache.block_tokens;
    const std::size_t kv_head = (head - sizes.heads) % sizes.kv_heads;
    const std::size_t at =
        slot / cache.block_tokens * cache.block_stride + kv_head * cache.head_stride;
    if (is_value) {
      std::copy_n(numbers, sizes.dim, cache.values + at + within * sizes.dim);
      return;
    }
    Number* const keys = cache.keys + at + within;
    for (std::size_t i = 0; i < sizes.dim; ++i) keys[i * cache.block_tokens] = numbers[i];
  }

  void clear_unattended() {
    const std::size_t width = decoder.sizes_.heads * decoder.sizes_.dim;
    const std::size_t rest = step.tokens - attended;
    for (std::size_t i = member.begin(rest); i < member.end(rest); ++i) {
      std::fill_n(decoder.attended_.row(attended + i), width, Number{});
    }
  }

  void activate(Block block) {
    const std::size_t columns = decoder.sizes_.intermediate;
    const std::size_t parts = (columns + kColumns - 1) / kColumns;
    const std::size_t count = (block.end - block.first) * parts;
    for (std::size_t i = member.begin(count); i < member.end(count); ++i) {
      const std::size_t row = i / parts, first = i % parts * kColumns;
      const std::size_t last = std::min(columns, first + kColumns);
      const Number* const from = decoder.gate_up_.data() + row * 2 * columns;
      decoder.rows_.gate(from + first, from + columns + first, last - first,
                         decoder.gated_.row(row) + first);
      decoder.gated_.convert(row, first, last);
    }
    member.meet();
  }

  void tap(std::size_t layer, std::size_t row) {
    const std::size_t hidden = decoder.sizes_.hidden;
    for (const Tap<Number>& tap : taps) {
      if (tap.layer == layer) std::copy_n(residual(row), hidden, tap.to + row * hidden);
    }
  }

  template <class Phases>
  void for_blocks(Phases phases) {
    const std::size_t most = decoder.layers_.front().qkv.weight->most_rows();
    for (std::size_t first = 0; first < step.tokens; first += most) {
      phases(Block{first, std::min(step.tokens, first + most)});
    }
  }

  std::size_t begin(Block block) const {
    return block.first + member.begin(block.end - block.first);
  }
  std::size_t end(Block block) const { return block.first + member.end(block.end - block.first); }
  Number* residual(std::size_t row) {
    return decoder.residual_.data() + row * decoder.sizes_.hidden;
  }
  Number* delta(std::size_t row) { return decoder.delta_.data() + row * decoder.sizes_.hidden; }
  Number* qkv(std::size_t row) {
    return decoder.qkv_.data() + row * decoder.layers_.front().qkv.weight->out();
  }

  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);
};

template <class Weight>
void Decoder<Weight>::run(const DecoderStep<Number>& step, const std::vector<Tap<Number>>& taps) {
  if (step.tokens == 0 || layers_.empty()) return;
  check_step(step);
  reserve(step.tokens);
  const Requests& requests = step.requests;
  const std::size_t attended =
      requests.count == 0 ? 0 : static_cast<std::size_t>(requests.starts[requests.count]);
  const Queries<Number> queries{qkv_.data(),           layers_.front().qkv.weight->out(),
                                attended_.row(0),      attended_.row_stride(),
                                step.tokens,           sizes_.heads,
                                sizes_.kv_heads,       sizes_.dim,
                                sizes_.scale};
  if constexpr (kIsChecked) {
    for (const PagedCache<Number>& cache : caches_) check(requests, cache, queries);
  }
  const AttentionPlan<Number> plan(attention_, requests, queries,
                                   static_cast<std::size_t>(omp_get_max_threads()));
  Team team;
#pragma omp parallel
  Pass{*this, step, taps, plan, attended, Team::Member(team)}.run();
}

template class ProductRows<float>;
template class ProductRows<BFloat16>;
template class ProductRows<Pair>;
template class Decoder<float>;
template class Decoder<BFloat16>;
template class Decoder<Pair>;

}  // namespace specgate::kernels
