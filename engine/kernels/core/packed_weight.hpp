// A weight in a kernel's layout, and its products with rows on all threads.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>

#include "linear_kernels.hpp"

namespace specgate::kernels {

// Accumulates in float32; the weight, rows, bias and outputs have the same type.
template <class Weight>
class PackedWeight {
 public:
  using Number = NumberOf<Weight>;

  // Copies a weight (out, in), row-major. Throws std::bad_alloc.
  PackedWeight(const LinearKernel<Weight>& kernel, const Number* values, std::size_t out,
               std::size_t in);

  // Writes (count, out): the products with `count` rows of `in` numbers, `stride` apart, plus the
  // bias (out,), which may be null. OpenMP's threads share the work.
  void multiply(const Number* rows, std::size_t stride, std::size_t count, const Number* bias,
                Number* outputs) const;

 private:
  using Input = InputOf<Weight>;

  struct Free {
    void operator()(Weight* values) const { std::free(values); }
  };

  // As many rows as the kernel takes at once, or fewer.
  void multiply_block(const Input* rows, std::size_t stride, std::size_t count,
                      const Number* bias, Number* outputs) const;
  void multiply_one(std::size_t panel, const Input* rows, std::size_t stride, std::size_t count,
                    const Number* bias, Number* outputs) const;

  const LinearKernel<Weight>& kernel_;
  std::size_t out_;
  std::size_t in_;
  std::size_t inputs_;  // inputs per row, as a kernel reads it
  std::size_t panels_;
  std::unique_ptr<Weight, Free> values_;  // (panels, inputs, width); zeros after the last row
};

}  // namespace specgate::kernels
