// The Python module engine._core.kernels. Tensors are passed by address: a step has a hundred
// products, and unpacking a tensor here would cost more than asking torch for its address.
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "attention.hpp"
#include "checks.hpp"
#include "decoder.hpp"
#include "instructions.hpp"
#include "packed_weight.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace specgate::kernels {
namespace {

template <class Kernel>
std::vector<std::string> names() {
  std::vector<std::string> found;
  for (const Kernel* kernel : find_kernels<Kernel>()) found.emplace_back(kernel->name);
  return found;
}

template <class Kernel>
const Kernel& named(const std::string& name) {
  for (const Kernel* kernel : find_kernels<Kernel>()) {
    if (kernel->name == name) return *kernel;
  }
  throw std::invalid_argument("this processor has no kernel " + name);
}

template <class Weight>
void pack(PackedWeight<Weight>* self, const std::string& name, std::uintptr_t values,
          std::size_t out, std::size_t in) {
  const auto& kernel = named<LinearKernel<Weight>>(name);
  const nb::gil_scoped_release unlocked;
  new (self) PackedWeight<Weight>(kernel, reinterpret_cast<const NumberOf<Weight>*>(values), out,
                                  in);
}

template <class Weight>
void multiply(const PackedWeight<Weight>& weight, std::uintptr_t rows, std::size_t stride,
              std::size_t count, std::uintptr_t bias, std::uintptr_t outputs) {
  using Number = NumberOf<Weight>;
  const nb::gil_scoped_release unlocked;
  weight.multiply(reinterpret_cast<const Number*>(rows), stride, count,
                  reinterpret_cast<const Number*>(bias), reinterpret_cast<Number*>(outputs));
}

template <class Weight>
auto define_linear(nb::module_& module, const char* name) {
  return nb::class_<PackedWeight<Weight>>(module, name)
      .def_static("kernels", names<LinearKernel<Weight>>)
      .def("__init__", pack<Weight>, "kernel"_a, "values"_a, "out"_a, "in_"_a)
      .def_prop_ro("bytes", &PackedWeight<Weight>::bytes)
      .def("multiply", multiply<Weight>, "rows"_a, "stride"_a, "count"_a, "bias"_a, "outputs"_a);
}

// Of some rows: the first, their number, bits of a code, and the addresses that CodedRows has.
using Coded = std::tuple<std::size_t, std::size_t, int, std::uintptr_t, std::uintptr_t,
                         std::uintptr_t>;

template <class Weight>
void pack_coded(PackedWeight<Weight>* self, const std::string& name, std::uintptr_t values,
                std::size_t out, std::size_t in, const std::vector<Coded>& coded) {
  const auto& kernel = named<LinearKernel<Weight>>(name);
  std::vector<CodedRows> rows;
  for (const auto& [first, count, bits, codes, scales, least] : coded) {
    if ((bits != 4 && bits != 8) || in % (bits == 4 ? 32 : 16) != 0 || first + count > out) {
      throw std::invalid_argument("codes of another shape than the weight");
    }
    rows.push_back({first, count, bits, reinterpret_cast<const std::uint8_t*>(codes),
                    reinterpret_cast<const float*>(scales),
                    reinterpret_cast<const float*>(least)});
  }
  const nb::gil_scoped_release unlocked;
  new (self) PackedWeight<Weight>(kernel, reinterpret_cast<const BFloat16*>(values), out, in, rows);
}

void make_requests(Requests* self, std::uintptr_t starts, std::uintptr_t lengths,
                   std::size_t count, std::uintptr_t blocks, std::size_t blocks_stride) {
  new (self) Requests{reinterpret_cast<const std::int32_t*>(starts),
                      reinterpret_cast<const std::int32_t*>(lengths), count,
                      reinterpret_cast<const std::int32_t*>(blocks), blocks_stride};
}

template <class Number>
struct Attention {
  const AttentionKernel<Number>& kernel;
  PagedCache<Number> cache;
  std::size_t heads, kv_heads, dim;
  float scale;
};

template <class Number>
void make_attention(Attention<Number>* self, const std::string& name, std::uintptr_t keys,
                    std::uintptr_t values, std::size_t blocks, std::size_t block_stride,
                    std::size_t head_stride, std::size_t block_tokens, std::size_t heads,
                    std::size_t kv_heads, std::size_t dim, float scale) {
  const auto& kernel = named<AttentionKernel<Number>>(name);
  new (self) Attention<Number>{
      kernel,
      {reinterpret_cast<Number*>(keys), reinterpret_cast<Number*>(values),
       blocks, block_stride, head_stride, block_tokens},
      heads,
      kv_heads,
      dim,
      scale};
}

template <class Number>
void attend_to(const Attention<Number>& attention, const Requests& requests,
               std::uintptr_t queries, std::size_t queries_stride, std::uintptr_t outputs,
               std::size_t outputs_stride, std::size_t tokens) {
  const nb::gil_scoped_release unlocked;
  attend(attention.kernel, requests, attention.cache,
         Queries<Number>{reinterpret_cast<const Number*>(queries), queries_stride,
                         reinterpret_cast<Number*>(outputs), outputs_stride, tokens,
                         attention.heads, attention.kv_heads, attention.dim, attention.scale});
}

template <class Number>
void define_attention(nb::module_& module, const char* name) {
  nb::class_<Attention<Number>>(module, name)
      .def_static("kernels", names<AttentionKernel<Number>>)
      .def("__init__", make_attention<Number>, "kernel"_a, "keys"_a, "values"_a,
           "blocks"_a, "block_stride"_a, "head_stride"_a, "block_tokens"_a, "heads"_a,
           "kv_heads"_a, "dim"_a, "scale"_a)
      .def("attend", attend_to<Number>, "requests"_a, "queries"_a, "queries_stride"_a,
           "outputs"_a, "outputs_stride"_a, "tokens"_a);
}

template <class Number>
void find_greatest(std::uintptr_t rows, std::size_t stride, std::size_t count, std::size_t size,
                   std::uintptr_t outputs) {
  if (size < kRowUnit) throw std::invalid_argument("rows are too short");
  const auto kernels = find_kernels<RowKernel<Number>>();
  if (kernels.empty()) throw std::invalid_argument("this processor has no kernel for rows");
  const nb::gil_scoped_release unlocked;
  for (std::size_t i = 0; i < count; ++i) {
    reinterpret_cast<std::int64_t*>(outputs)[i] = static_cast<std::int64_t>(
        kernels.front()->greatest(reinterpret_cast<const Number*>(rows) + i * stride, size));
  }
}

template <class Weight>
void make_decoder(Decoder<Weight>* self, const std::string& attention, const Architecture& sizes,
                  std::uintptr_t embeddings, std::size_t vocabulary, std::uintptr_t angles,
                  std::size_t positions, std::uintptr_t norm) {
  using Number = NumberOf<Weight>;
  const Tables<Number> tables{reinterpret_cast<const Number*>(embeddings), vocabulary,
                              reinterpret_cast<const Number*>(angles), positions,
                              reinterpret_cast<const Number*>(norm)};
  // A processor that has a kernel for attention has one for rows.
  const RowKernel<Number>& rows = *find_kernels<RowKernel<Number>>().front();
  new (self) Decoder<Weight>(sizes, tables, named<AttentionKernel<Number>>(attention), rows);
}

template <class Weight>
void add_layer(Decoder<Weight>& decoder, const PackedWeight<Weight>& qkv, std::uintptr_t qkv_bias,
               const PackedWeight<Weight>& out, std::uintptr_t out_bias,
               const PackedWeight<Weight>& gate_up, std::uintptr_t gate_up_bias,
               const PackedWeight<Weight>& down, std::uintptr_t down_bias,
               std::uintptr_t attention_norm, std::uintptr_t mlp_norm,
               std::uintptr_t query_norm, std::uintptr_t key_norm) {
  const auto at = [](std::uintptr_t address) {
    return reinterpret_cast<const NumberOf<Weight>*>(address);
  };
  decoder.add({{&qkv, at(qkv_bias)},
               {&out, at(out_bias)},
               {&gate_up, at(gate_up_bias)},
               {&down, at(down_bias)},
               at(attention_norm),
               at(mlp_norm),
               at(query_norm),
               at(key_norm)});
}

template <class Weight>
void bind_caches(Decoder<Weight>& decoder,
                 const std::vector<const Attention<NumberOf<Weight>>*>& layers) {
  std::vector<PagedCache<NumberOf<Weight>>> caches;
  for (const auto* const layer : layers) caches.push_back(layer->cache);
  decoder.bind(std::move(caches));
}

template <class Weight>
void run_decoder(Decoder<Weight>& decoder, std::size_t tokens, std::uintptr_t ids,
                 std::uintptr_t embeddings, std::uintptr_t positions, std::uintptr_t slots,
                 const Requests& requests, std::uintptr_t outputs,
                 const std::vector<std::pair<std::size_t, std::uintptr_t>>& taps) {
  using Number = NumberOf<Weight>;
  std::vector<Tap<Number>> copies;
  for (const auto& [layer, to] : taps) copies.push_back({layer, reinterpret_cast<Number*>(to)});
  const nb::gil_scoped_release unlocked;
  decoder.run({tokens, reinterpret_cast<const std::int32_t*>(ids),
               reinterpret_cast<const Number*>(embeddings),
               reinterpret_cast<const std::int64_t*>(positions),
               reinterpret_cast<const std::int64_t*>(slots), requests,
               reinterpret_cast<Number*>(outputs)},
              copies);
}

void make_architecture(Architecture* self, std::size_t hidden, std::size_t intermediate,
                       std::size_t heads, std::size_t kv_heads, std::size_t dim, float scale,
                       float epsilon) {
  new (self) Architecture{hidden, intermediate, heads, kv_heads, dim, scale, epsilon};
}

template <class Weight>
void define_decoder(nb::module_& module, const char* name) {
  nb::class_<Decoder<Weight>>(module, name)
      .def("__init__", make_decoder<Weight>, "attention"_a, "sizes"_a, "embeddings"_a,
           "vocabulary"_a, "angles"_a, "positions"_a, "norm"_a)
      .def("add", add_layer<Weight>, "qkv"_a, "qkv_bias"_a, "out"_a, "out_bias"_a, "gate_up"_a,
           "gate_up_bias"_a, "down"_a, "down_bias"_a, "attention_norm"_a, "mlp_norm"_a,
           "query_norm"_a, "key_norm"_a)
      .def("bind", bind_caches<Weight>, "layers"_a)
      .def("run", run_decoder<Weight>, "tokens"_a, "ids"_a, "embeddings"_a, "positions"_a,
           "slots"_a, "requests"_a, "outputs"_a, "taps"_a);
}

}  // namespace

void bind(nb::module_& module) {
  module.def("are_pairs_fast", are_pairs_fast);
  module.def("tiles", [] {
    switch (find_tiles()) {
      case Tiles::kUsable: return "usable";
      case Tiles::kRefused: return "refused";
      default: return "absent";
    }
  });
  module.attr("is_checked") = kIsChecked;
  define_linear<float>(module, "PackedFloat32");
  define_linear<BFloat16>(module, "PackedBFloat16")
      .def("__init__", pack_coded<BFloat16>, "kernel"_a, "values"_a, "out"_a, "in_"_a, "coded"_a);
  define_linear<Pair>(module, "PackedPairs")
      .def("__init__", pack_coded<Pair>, "kernel"_a, "values"_a, "out"_a, "in_"_a, "coded"_a);
  nb::class_<Requests>(module, "Requests")
      .def("__init__", make_requests, "starts"_a, "lengths"_a, "count"_a, "blocks"_a,
           "blocks_stride"_a);
  define_attention<float>(module, "AttentionFloat32");
  define_attention<BFloat16>(module, "AttentionBFloat16");
  module.def("greatest_float32", find_greatest<float>, "rows"_a, "stride"_a, "count"_a, "size"_a,
             "outputs"_a);
  module.def("greatest_bfloat16", find_greatest<BFloat16>, "rows"_a, "stride"_a, "count"_a,
             "size"_a, "outputs"_a);
  nb::class_<Architecture>(module, "Architecture")
      .def("__init__", make_architecture, "hidden"_a, "intermediate"_a, "heads"_a, "kv_heads"_a,
           "dim"_a, "scale"_a, "epsilon"_a);
  define_decoder<float>(module, "DecoderFloat32");
  define_decoder<BFloat16>(module, "DecoderBFloat16");
  define_decoder<Pair>(module, "DecoderPairs");
}

}  // namespace specgate::kernels
