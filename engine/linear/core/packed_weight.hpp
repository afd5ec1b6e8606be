// A weight in the layout of a kernel, and its products with rows on all threads.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>

#include "kernels.hpp"

namespace specgate::linear {

// Of float or BFloat16, as rows, bias and outputs are; products are added up in float32.
template <class Number>
class PackedWeight {
 public:
  // Copies a weight (out, in), row by row. Throws std::bad_alloc.
  PackedWeight(const Kernel& kernel, const Number* values, std::size_t out, std::size_t in);

  // Writes (count, out): the products with `count` rows of `in` numbers, `stride` apart, plus the
  // bias (out,), which may be null. OpenMP's threads share the work.
  void multiply(const Number* rows, std::size_t stride, std::size_t count, const Number* bias,
                Number* outputs) const;

 private:
  struct Free {
    void operator()(Number* values) const { std::free(values); }
  };

  // Up to kMostRows rows.
  void multiply_block(const float* rows, std::size_t stride, std::size_t count,
                      const Number* bias, Number* outputs) const;
  void multiply_one(std::size_t panel, const float* rows, std::size_t stride, std::size_t count,
                    const Number* bias, Number* outputs) const;

  std::size_t width_;
  MultiplyPanel<Number> multiply_panel_;
  std::size_t out_;
  std::size_t in_;
  std::size_t panels_;
  std::unique_ptr<Number, Free> values_;  // (panels, in, width); zeros behind the last row
};

}  // namespace specgate::linear
