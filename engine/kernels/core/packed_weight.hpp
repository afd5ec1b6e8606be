// A weight in a kernel's layout, and its products with rows on all threads.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>

#include "linear_kernels.hpp"
#include "team.hpp"

namespace specgate::kernels {

// Accumulates in float32; the weight, rows, bias and outputs have the same type.
template <class Weight>
class PackedWeight {
 public:
  using Number = NumberOf<Weight>;
  using Input = InputOf<Weight>;

  // Copies a weight (out, in), row-major. Throws std::bad_alloc.
  PackedWeight(const LinearKernel<Weight>& kernel, const Number* values, std::size_t out,
               std::size_t in);

  // Writes (count, out): the products with `count` rows of `in` numbers, `stride` apart, plus the
  // bias (out,), which may be null. OpenMP's threads share the work.
  void multiply(const Number* rows, std::size_t stride, std::size_t count, const Number* bias,
                Number* outputs) const;

  // Writes a member's part of the products of at most `most_rows()` rows, which are in the form that
  // the kernel reads, `stride` inputs apart. Needs no memory.
  void multiply_part(const Team::Member& member, const Input* rows, std::size_t stride,
                     std::size_t count, const Number* bias, Number* outputs) const;

  // Releases what the calling thread keeps between products.
  void release() const;

  std::size_t out() const { return out_; }
  std::size_t in() const { return in_; }
  std::size_t inputs() const { return inputs_; }
  std::size_t most_rows() const { return kernel_.most_rows; }

 private:
  struct Free {
    void operator()(Weight* values) const { std::free(values); }
  };

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
