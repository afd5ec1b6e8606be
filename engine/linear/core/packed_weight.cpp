#include "packed_weight.hpp"

#include <omp.h>
#include <sys/mman.h>

#include <algorithm>
#include <new>
#include <type_traits>
#include <vector>

namespace specgate::linear {
namespace {

constexpr std::size_t kLineBytes = 64;
constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;

void* allocate(std::size_t bytes) {
  // What is fetched ahead crosses fewer pages; a small weight would leave most of one unused.
  const std::size_t unit = bytes < kHugePageBytes ? kLineBytes : kHugePageBytes;
  const std::size_t rounded = (std::max<std::size_t>(1, bytes) + unit - 1) / unit * unit;
  void* const memory = std::aligned_alloc(unit, rounded);
  if (memory == nullptr) throw std::bad_alloc();
  // Advice only: where the kernel has no huge pages to give, small ones do.
  if (unit == kHugePageBytes) ::madvise(memory, rounded, MADV_HUGEPAGE);
  return memory;
}

MultiplyPanel<float> choose(const Kernel& kernel, float) { return kernel.floats; }
MultiplyPanel<BFloat16> choose(const Kernel& kernel, BFloat16) { return kernel.halves; }

// Where a panel has the value of a lane, behind those of earlier inputs.
std::size_t place(std::size_t lane, std::size_t, float) { return lane; }
std::size_t place(std::size_t lane, std::size_t width, BFloat16) {
  return 2 * (lane % (width / 2)) + lane / (width / 2);
}

}  // namespace

template <class Number>
PackedWeight<Number>::PackedWeight(const Kernel& kernel, const Number* values, std::size_t out,
                                   std::size_t in)
    : width_(kernel.width),
      multiply_panel_(choose(kernel, Number{})),
      out_(out),
      in_(in),
      panels_((out + width_ - 1) / width_),
      values_(static_cast<Number*>(allocate(panels_ * in * width_ * sizeof(Number)))) {
#pragma omp parallel for schedule(static)
  for (std::size_t panel = 0; panel < panels_; ++panel) {
    Number* const to = values_.get() + panel * in_ * width_;
    for (std::size_t lane = 0; lane < width_; ++lane) {
      const std::size_t row = panel * width_ + lane, at = place(lane, width_, Number{});
      for (std::size_t i = 0; i < in_; ++i) {
        to[i * width_ + at] = row < out_ ? values[row * in_ + i] : Number{};
      }
    }
  }
}

template <class Number>
void PackedWeight<Number>::multiply(const Number* rows, std::size_t stride, std::size_t count,
                                    const Number* bias, Number* outputs) const {
  for (std::size_t first = 0; first < count; first += kMostRows) {
    const std::size_t some = std::min(kMostRows, count - first);
    const Number* const from = rows + first * stride;
    Number* const to = outputs + first * out_;
    if constexpr (std::is_same_v<Number, float>) {
      multiply_block(from, stride, some, bias, to);
    } else {
      thread_local std::vector<float> widened;
      widened.resize(some * in_);
      for (std::size_t row = 0; row < some; ++row) {
        for (std::size_t i = 0; i < in_; ++i) {
          widened[row * in_ + i] = widen(from[row * stride + i]);
        }
      }
      multiply_block(widened.data(), in_, some, bias, to);
    }
  }
}

template <class Number>
void PackedWeight<Number>::multiply_block(const float* rows, std::size_t stride,
                                          std::size_t count, const Number* bias,
                                          Number* outputs) const {
#pragma omp parallel
  {
    const auto thread = static_cast<std::size_t>(omp_get_thread_num());
    const auto threads = static_cast<std::size_t>(omp_get_num_threads());
    const std::size_t end = panels_ * (thread + 1) / threads;
    for (std::size_t panel = panels_ * thread / threads; panel < end; ++panel) {
      multiply_one(panel, rows, stride, count, bias, outputs);
    }
  }
}

template <class Number>
void PackedWeight<Number>::multiply_one(std::size_t panel, const float* rows, std::size_t stride,
                                        std::size_t count, const Number* bias,
                                        Number* outputs) const {
  alignas(kLineBytes) float sums[kMostRows * kMostWidth];
  multiply_panel_(values_.get() + panel * in_ * width_, in_, rows, stride, count, sums);
  const std::size_t first = panel * width_;
  const std::size_t lanes = std::min(width_, out_ - first);
  for (std::size_t row = 0; row < count; ++row) {
    float* const from = sums + row * width_;
    Number* const to = outputs + row * out_ + first;
    if (bias != nullptr) {
      for (std::size_t lane = 0; lane < lanes; ++lane) from[lane] += widen(bias[first + lane]);
    }
    for (std::size_t lane = 0; lane < lanes; ++lane) narrow(from[lane], to[lane]);
  }
}

template class PackedWeight<float>;
template class PackedWeight<BFloat16>;

}  // namespace specgate::linear
