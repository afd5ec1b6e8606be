#include "packed_weight.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <new>
#include <type_traits>
#include <vector>

#include "checks.hpp"

namespace specgate::kernels {
namespace {

constexpr std::size_t kLineBytes = 64;
constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;

void* allocate(std::size_t bytes) {
  // Huge pages reduce page crossings of prefetches; a small weight would leave most of one unused.
  const std::size_t unit = bytes < kHugePageBytes ? kLineBytes : kHugePageBytes;
  const std::size_t rounded = (std::max<std::size_t>(1, bytes) + unit - 1) / unit * unit;
  void* const memory = std::aligned_alloc(unit, rounded);
  if (memory == nullptr) throw std::bad_alloc();
  // Only advice: without huge pages, small ones are used.
  if (unit == kHugePageBytes) ::madvise(memory, rounded, MADV_HUGEPAGE);
  return memory;
}

// Numbers of a row per input of a kernel.
template <class Weight>
constexpr std::size_t kNumbers = std::is_same_v<Weight, Pair> ? 2 : 1;

// Writes one row of the weight to a lane of a panel with `width` lanes.
void pack(const float* row, std::size_t in, std::size_t lane, std::size_t width, float* panel) {
  for (std::size_t i = 0; i < in; ++i) panel[i * width + lane] = row[i];
}

void pack(const BFloat16* row, std::size_t in, std::size_t lane, std::size_t width,
          BFloat16* panel) {
  const std::size_t half = width / 2, column = 2 * (lane % half) + lane / half;
  for (std::size_t i = 0; i < in; ++i) panel[i * width + column] = row[i];
}

Pair pair_at(const BFloat16* row, std::size_t in, std::size_t i) {
  return {row[i], i + 1 < in ? row[i + 1] : BFloat16{0}};
}

void pack(const BFloat16* row, std::size_t in, std::size_t lane, std::size_t width, Pair* panel) {
  for (std::size_t i = 0; i < in; i += 2) panel[i / 2 * width + lane] = pair_at(row, in, i);
}

// Rows in the form that kernels read; copied to `memory` if they are in another form.
template <class Input>
struct Rows {
  const Input* first;
  std::size_t stride;
};

Rows<float> as_inputs(const float* rows, std::size_t stride, std::size_t, std::size_t,
                      std::size_t, std::vector<float>&) {
  return {rows, stride};
}

Rows<float> as_inputs(const BFloat16* rows, std::size_t stride, std::size_t count, std::size_t in,
                      std::size_t, std::vector<float>& memory) {
  memory.resize(count * in);
  for (std::size_t row = 0; row < count; ++row) {
    widen(rows + row * stride, in, memory.data() + row * in);
  }
  return {memory.data(), in};
}

Rows<Pair> as_inputs(const BFloat16* rows, std::size_t stride, std::size_t count, std::size_t in,
                     std::size_t pairs, std::vector<Pair>& memory) {
  if (in == 2 * pairs && stride % 2 == 0 &&
      reinterpret_cast<std::uintptr_t>(rows) % alignof(Pair) == 0) {
    return {reinterpret_cast<const Pair*>(rows), stride / 2};
  }
  memory.assign(count * pairs, Pair{});
  for (std::size_t row = 0; row < count; ++row) {
    for (std::size_t i = 0; i < in; i += 2) {
      memory[row * pairs + i / 2] = pair_at(rows + row * stride, in, i);
    }
  }
  return {memory.data(), pairs};
}

}  // namespace

template <class Weight>
PackedWeight<Weight>::PackedWeight(const LinearKernel<Weight>& kernel, const Number* values,
                                   std::size_t out, std::size_t in)
    : kernel_(kernel),
      out_(out),
      in_(in),
      inputs_((in + kNumbers<Weight> * kernel.unit - 1) / (kNumbers<Weight> * kernel.unit) *
              kernel.unit),
      panels_((out + kernel.width - 1) / kernel.width),
      values_(static_cast<Weight*>(
          allocate(panels_ * inputs_ * kernel.width * sizeof(Weight)))) {
  if constexpr (kIsChecked) check_numbers(values, out * in, "values");
#pragma omp parallel for schedule(static)
  for (std::size_t panel = 0; panel < panels_; ++panel) {
    Weight* const to = values_.get() + panel * inputs_ * kernel_.width;
    std::fill_n(to, inputs_ * kernel_.width, Weight{});
    const std::size_t first = panel * kernel_.width;
    for (std::size_t lane = 0; lane < std::min(kernel_.width, out_ - first); ++lane) {
      pack(values + (first + lane) * in_, in_, lane, kernel_.width, to);
    }
  }
}

template <class Weight>
void PackedWeight<Weight>::multiply(const Number* rows, std::size_t stride, std::size_t count,
                                    const Number* bias, Number* outputs) const {
  if constexpr (kIsChecked) {
    check_numbers(rows, count == 0 ? 0 : (count - 1) * stride + in_, "rows");
    check_numbers(bias, bias == nullptr ? 0 : out_, "bias");
    check_numbers(outputs, count * out_, "outputs");
  }
  thread_local std::vector<Input> memory;
  for (std::size_t first = 0; first < count; first += kernel_.most_rows) {
    const std::size_t some = std::min(kernel_.most_rows, count - first);
    const auto inputs = as_inputs(rows + first * stride, stride, some, in_, inputs_, memory);
    Team team;
#pragma omp parallel
    {
      multiply_part(Team::Member(team), inputs.first, inputs.stride, some, bias,
                    outputs + first * out_);
      release();
    }
  }
}

template <class Weight>
void PackedWeight<Weight>::multiply_part(const Team::Member& member, const Input* rows,
                                         std::size_t stride, std::size_t count,
                                         const Number* bias, Number* outputs) const {
  for (std::size_t panel = member.begin(panels_); panel < member.end(panels_); ++panel) {
    multiply_one(panel, rows, stride, count, bias, outputs);
  }
}

template <class Weight>
void PackedWeight<Weight>::release() const {
  if (kernel_.release != nullptr) kernel_.release();
}

template <class Weight>
void PackedWeight<Weight>::multiply_one(std::size_t panel, const Input* rows, std::size_t stride,
                                        std::size_t count, const Number* bias,
                                        Number* outputs) const {
  alignas(kLineBytes) float sums[kMostRows * kMostWidth];
  const std::size_t width = kernel_.width;
  kernel_.multiply(values_.get() + panel * inputs_ * width, inputs_, rows, stride, count, sums);
  const std::size_t first = panel * width;
  const std::size_t lanes = std::min(width, out_ - first);
  for (std::size_t row = 0; row < count; ++row) {
    float* const from = sums + row * width;
    Number* const to = outputs + row * out_ + first;
    if (bias != nullptr) {
      for (std::size_t lane = 0; lane < lanes; ++lane) from[lane] += widen(bias[first + lane]);
    }
    for (std::size_t lane = 0; lane < lanes; ++lane) narrow(from[lane], to[lane]);
  }
}

template class PackedWeight<float>;
template class PackedWeight<BFloat16>;
template class PackedWeight<Pair>;

}  // namespace specgate::kernels
