// The Python module engine._core.kernels. Tensors are passed by address: a step has a hundred
// products, and unpacking a tensor here would cost more than asking torch for its address.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "attention.hpp"
#include "checks.hpp"
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
void define_linear(nb::module_& module, const char* name) {
  nb::class_<PackedWeight<Weight>>(module, name)
      .def_static("kernels", names<LinearKernel<Weight>>)
      .def("__init__", pack<Weight>, "kernel"_a, "values"_a, "out"_a, "in_"_a)
      .def("multiply", multiply<Weight>, "rows"_a, "stride"_a, "count"_a, "bias"_a, "outputs"_a);
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
      {reinterpret_cast<const Number*>(keys), reinterpret_cast<const Number*>(values),
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

}  // namespace

void bind(nb::module_& module) {
  module.def("tiles", [] {
    switch (find_tiles()) {
      case Tiles::kUsable: return "usable";
      case Tiles::kRefused: return "refused";
      default: return "absent";
    }
  });
  module.attr("is_checked") = kIsChecked;
  define_linear<float>(module, "PackedFloat32");
  define_linear<BFloat16>(module, "PackedBFloat16");
  define_linear<Pair>(module, "PackedPairs");
  nb::class_<Requests>(module, "Requests")
      .def("__init__", make_requests, "starts"_a, "lengths"_a, "count"_a, "blocks"_a,
           "blocks_stride"_a);
  define_attention<float>(module, "AttentionFloat32");
  define_attention<BFloat16>(module, "AttentionBFloat16");
}

}  // namespace specgate::kernels
