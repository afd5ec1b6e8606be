// The Python module engine.linear._core. Rows go in and out by their address: a step has a hundred
// products, and to take a tensor apart costs more than to ask it for one.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels.hpp"
#include "packed_weight.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace specgate::linear {
namespace {

template <class Weight>
std::vector<std::string> kernels() {
  std::vector<std::string> names;
  for (const Kernel<Weight>* kernel : find_kernels<Weight>()) names.emplace_back(kernel->name);
  return names;
}

template <class Weight>
void make(PackedWeight<Weight>* self, const std::string& name, std::uintptr_t values,
          std::size_t out, std::size_t in) {
  for (const Kernel<Weight>* kernel : find_kernels<Weight>()) {
    if (kernel->name != name) continue;
    const nb::gil_scoped_release unlocked;
    new (self) PackedWeight<Weight>(*kernel, reinterpret_cast<const NumberOf<Weight>*>(values),
                                    out, in);
    return;
  }
  throw std::invalid_argument("this processor has no kernel " + name);
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
void define(nb::module_& module, const char* name) {
  nb::class_<PackedWeight<Weight>>(module, name)
      .def_static("kernels", kernels<Weight>)
      .def("__init__", make<Weight>, "kernel"_a, "values"_a, "out"_a, "in_"_a)
      .def("multiply", multiply<Weight>, "rows"_a, "stride"_a, "count"_a, "bias"_a, "outputs"_a);
}

}  // namespace
}  // namespace specgate::linear

NB_MODULE(_core, module) {
  using namespace specgate::linear;
  define<float>(module, "PackedFloat32");
  define<BFloat16>(module, "PackedBFloat16");
  define<Pair>(module, "PackedPairs");
}
