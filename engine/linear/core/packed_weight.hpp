// A weight in the layout of a kernel, and its products with rows on all threads.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>

#include "kernels.hpp"

namespace specgate::linear {

class PackedWeight {
 public:
  // Copies a weight (out, in), row by row. Throws std::bad_alloc.
  PackedWeight(const Kernel& kernel, const float* values, std::size_t out, std::size_t in);

  std::size_t out() const { return out_; }
  std::size_t in() const { return in_; }

  // Writes (count, out): the products with `count` rows of `in` floats, `stride` apart, plus the
  // bias (out,), which may be null. OpenMP's threads share the work.
  void multiply(const float* rows, std::size_t stride, std::size_t count, const float* bias,
                float* outputs) const;

 private:
  struct Free {
    void operator()(float* values) const { std::free(values); }
  };

  void multiply_panel(std::size_t panel, const float* rows, std::size_t stride, std::size_t count,
                      const float* bias, float* outputs) const;

  const Kernel* kernel_;
  std::size_t out_;
  std::size_t in_;
  std::size_t panels_;
  std::unique_ptr<float, Free> values_;  // (panels, in, width); zeros behind the last row
};

}  // namespace specgate::linear
