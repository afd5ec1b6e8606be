// The Python module engine.linear._core. Rows go in and out by their address: a step has a hundred
// products, and to take a tensor apart costs more than to ask it for one.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>

#include "kernels.hpp"
#include "packed_weight.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace specgate::linear {
namespace {

using Weight = nb::ndarray<const float, nb::ndim<2>, nb::device::cpu, nb::c_contig>;

bool is_supported() { return find_kernel() != nullptr; }

void make(PackedWeight* self, const Weight& weight) {
  const Kernel* const kernel = find_kernel();
  if (kernel == nullptr) throw std::runtime_error("this processor has no kernel");
  new (self) PackedWeight(*kernel, weight.data(), weight.shape(0), weight.shape(1));
}

void multiply(const PackedWeight& weight, std::uintptr_t rows, std::size_t stride,
              std::size_t count, std::uintptr_t bias, std::uintptr_t outputs) {
  const nb::gil_scoped_release unlocked;
  weight.multiply(reinterpret_cast<const float*>(rows), stride, count,
                  reinterpret_cast<const float*>(bias), reinterpret_cast<float*>(outputs));
}

}  // namespace
}  // namespace specgate::linear

NB_MODULE(_core, module) {
  using namespace specgate::linear;
  module.def("is_supported", is_supported);
  nb::class_<PackedWeight>(module, "PackedWeight")
      .def("__init__", make, "weight"_a)
      .def("multiply", multiply, "rows"_a, "stride"_a, "count"_a, "bias"_a, "outputs"_a);
}
