#include "packed_weight.hpp"

#include <omp.h>
#include <sys/mman.h>

#include <algorithm>
#include <new>

namespace specgate::linear {
namespace {

constexpr std::size_t kLineBytes = 64;
constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;

float* allocate(std::size_t floats) {
  const std::size_t bytes = floats * sizeof(float);
  // What is fetched ahead crosses fewer pages; a small weight would leave most of one unused.
  const std::size_t unit = bytes < kHugePageBytes ? kLineBytes : kHugePageBytes;
  const std::size_t rounded = (bytes + unit - 1) / unit * unit;
  void* const memory = std::aligned_alloc(unit, rounded);
  if (memory == nullptr) throw std::bad_alloc();
  // Advice only: where the kernel has no huge pages to give, small ones do.
  if (unit == kHugePageBytes) ::madvise(memory, rounded, MADV_HUGEPAGE);
  return static_cast<float*>(memory);
}

}  // namespace

PackedWeight::PackedWeight(const Kernel& kernel, const float* values, std::size_t out,
                           std::size_t in)
    : kernel_(&kernel),
      out_(out),
      in_(in),
      panels_((out + kernel.width - 1) / kernel.width),
      values_(allocate(std::max<std::size_t>(1, panels_ * in * kernel.width))) {
  const std::size_t width = kernel.width;
#pragma omp parallel for schedule(static)
  for (std::size_t panel = 0; panel < panels_; ++panel) {
    float* const to = values_.get() + panel * in * width;
    for (std::size_t lane = 0; lane < width; ++lane) {
      const std::size_t row = panel * width + lane;
      for (std::size_t i = 0; i < in; ++i) {
        to[i * width + lane] = row < out ? values[row * in + i] : 0.0f;
      }
    }
  }
}

void PackedWeight::multiply(const float* rows, std::size_t stride, std::size_t count,
                            const float* bias, float* outputs) const {
#pragma omp parallel
  {
    const auto thread = static_cast<std::size_t>(omp_get_thread_num());
    const auto threads = static_cast<std::size_t>(omp_get_num_threads());
    const std::size_t end = panels_ * (thread + 1) / threads;
    for (std::size_t row = 0; row < count; row += kMostRows) {
      const std::size_t some = std::min(kMostRows, count - row);
      for (std::size_t panel = panels_ * thread / threads; panel < end; ++panel) {
        multiply_panel(panel, rows + row * stride, stride, some, bias, outputs + row * out_);
      }
    }
  }
}

void PackedWeight::multiply_panel(std::size_t panel, const float* rows, std::size_t stride,
                                  std::size_t count, const float* bias, float* outputs) const {
  constexpr std::size_t kMostWidth = 32;
  alignas(kLineBytes) float sums[kMostRows * kMostWidth];
  const std::size_t width = kernel_->width;
  kernel_->multiply(values_.get() + panel * in_ * width, in_, rows, stride, count, sums);
  const std::size_t first = panel * width;
  const std::size_t lanes = std::min(width, out_ - first);
  for (std::size_t row = 0; row < count; ++row) {
    const float* const from = sums + row * width;
    float* const to = outputs + row * out_ + first;
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      to[lane] = bias == nullptr ? from[lane] : from[lane] + bias[first + lane];
    }
  }
}

}  // namespace specgate::linear
