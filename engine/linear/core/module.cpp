// The Python module engine.linear._core. Rows go in and out by their address: a step has a hundred
// products, and to take a tensor apart costs more than to ask it for one.
#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>

#include "kernels.hpp"
#include "packed_weight.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace specgate::linear {
namespace {

template <class Number>
void make(PackedWeight<Number>* self, std::uintptr_t values, std::size_t out, std::size_t in) {
  const Kernel* const kernel = find_kernel();
  if (kernel == nullptr) throw std::runtime_error("this processor has no kernel");
  const nb::gil_scoped_release unlocked;
  new (self) PackedWeight<Number>(*kernel, reinterpret_cast<const Number*>(values), out, in);
}

template <class Number>
void multiply(const PackedWeight<Number>& weight, std::uintptr_t rows, std::size_t stride,
              std::size_t count, std::uintptr_t bias, std::uintptr_t outputs) {
  const nb::gil_scoped_release unlocked;
  weight.multiply(reinterpret_cast<const Number*>(rows), stride, count,
                  reinterpret_cast<const Number*>(bias), reinterpret_cast<Number*>(outputs));
}

template <class Number>
void define(nb::module_& module, const char* name) {
  nb::class_<PackedWeight<Number>>(module, name)
      .def("__init__", make<Number>, "values"_a, "out"_a, "in_"_a)
      .def("multiply", multiply<Number>, "rows"_a, "stride"_a, "count"_a, "bias"_a, "outputs"_a);
}

}  // namespace
}  // namespace specgate::linear

NB_MODULE(_core, module) {
  using namespace specgate::linear;
  module.def("is_supported", [] { return find_kernel() != nullptr; });
  define<float>(module, "PackedFloat32");
  define<BFloat16>(module, "PackedBFloat16");
}
