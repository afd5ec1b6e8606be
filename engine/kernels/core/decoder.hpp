// The layers of a decoder in one call: from token ids and positions to the last hidden states.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "attention.hpp"
#include "packed_weight.hpp"
#include "row_kernels.hpp"
#include "team.hpp"

namespace specgate::kernels {

// Sizes of a model: of a Llama (arXiv 2302.13971), with biases and norms of queries and keys where
// its layers have them. `hidden`, `intermediate` and half of `dim` are multiples of kRowUnit.
struct Architecture {
  std::size_t hidden;
  std::size_t intermediate;
  std::size_t heads;
  std::size_t kv_heads;
  std::size_t dim;
  float scale;    // of attention's scores
  float epsilon;  // of norms
};

// Rows of tables: of embeddings (hidden,), and of cosines and sines (dim / 2,) by position.
template <class Number>
struct Tables {
  const Number* embeddings;
  std::size_t vocabulary;
  const Number* angles;
  std::size_t positions;
  const Number* norm;  // weight of the last norm, (hidden,)
};

// A product of a layer, with its bias or null.
template <class Weight>
struct Linear {
  const PackedWeight<Weight>* weight;
  const NumberOf<Weight>* bias;
};

// Weights of a layer. `qkv` gives queries, keys and values; `gate_up` gates and values. The last
// two norms are of single heads, (dim,), or null.
template <class Weight>
struct Layer {
  Linear<Weight> qkv, out, gate_up, down;
  const NumberOf<Weight>* attention_norm;
  const NumberOf<Weight>* mlp_norm;
  const NumberOf<Weight>* query_norm;
  const NumberOf<Weight>* key_norm;
};

// A step of `tokens` tokens. They are given by ids or, if these are null, by rows of embeddings.
// The first `requests.starts[requests.count]` belong to requests, and their keys and values are
// written to the cache's slots, unless a slot is negative. The attention of the rest is zero.
template <class Number>
struct DecoderStep {
  std::size_t tokens;
  const std::int32_t* ids;
  const Number* embeddings;
  const std::int64_t* positions;
  const std::int64_t* slots;
  Requests requests;
  Number* outputs;  // (tokens, hidden)
};

// The residual stream before layer `layer`, or after the last, is copied `to` (tokens, hidden).
template <class Number>
struct Tap {
  std::size_t layer;
  Number* to;
};

// Rows as phases write them and as a kernel reads them: the same memory if the forms are the same.
template <class Weight>
class ProductRows {
 public:
  using Number = NumberOf<Weight>;
  using Input = InputOf<Weight>;

  // Throws std::bad_alloc.
  void reserve(std::size_t rows, const PackedWeight<Weight>& weight);
  Number* row(std::size_t row);
  // Where numbers [begin, end) of a row have been written: makes them inputs.
  void convert(std::size_t row, std::size_t begin, std::size_t end);
  const Input* inputs(std::size_t row) const { return inputs_.data() + row * stride_; }
  std::size_t stride() const { return stride_; }  // in inputs
  std::size_t row_stride() const;                 // in numbers

 private:
  std::size_t stride_ = 0;
  std::size_t in_ = 0;
  std::vector<Input> inputs_;
  std::vector<Number> numbers_;  // if they have another form
};

template <class Weight>
class Decoder {
 public:
  using Number = NumberOf<Weight>;

  // Keeps the addresses it is given. Throws std::invalid_argument for a size that is not supported.
  Decoder(const Architecture& sizes, const Tables<Number>& tables,
          const AttentionKernel<Number>& attention, const RowKernel<Number>& rows);

  // Throws std::invalid_argument if a weight has another shape.
  void add(const Layer<Weight>& layer);
  // The cache of each layer; throws std::invalid_argument for another number of layers.
  void bind(std::vector<PagedCache<Number>> caches);

  // OpenMP's threads share the work. Results are batch-invariant. One call at a time.
  // Throws std::bad_alloc, and std::out_of_range for an id, position or slot outside of its table;
  // then nothing has been written.
  void run(const DecoderStep<Number>& step, const std::vector<Tap<Number>>& taps);

 private:
  // Rows that pass the products at once.
  struct Block {
    std::size_t first;
    std::size_t end;
  };
  struct Pass;  // what a member does

  void check_step(const DecoderStep<Number>& step) const;
  void reserve(std::size_t tokens);

  Architecture sizes_;
  Tables<Number> tables_;
  const AttentionKernel<Number>& attention_;
  const RowKernel<Number>& rows_;
  std::vector<Layer<Weight>> layers_;
  std::vector<PagedCache<Number>> caches_;
  // Of all tokens of a step: the residual stream, what is added to it next, and queries, keys and
  // values, which attention replaces by its results.
  std::vector<Number> residual_, delta_, qkv_;
  ProductRows<Weight> attended_;
  // Of a block.
  ProductRows<Weight> normed_, gated_;
  std::vector<Number> gate_up_;
};

}  // namespace specgate::kernels
