#include "packed_weight.hpp"

#include <omp.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
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

// Writes a panel's rows, given by their codes, to its blocks.
template <class Weight, class Block>
void pack_panel(const CodedRows& coded, std::size_t first, std::size_t rows, std::size_t in,
                std::size_t count, Block* blocks) {
  std::fill_n(blocks, count, Block{});
  for (std::size_t lane = 0; lane < rows; ++lane) {
    pack_codes<Weight>(coded, first + lane - coded.first, in, lane, blocks);
  }
}

// What a thread needs to compare a panel of codes with its values.
template <class Weight>
struct Comparison {
  struct alignas(kLineBytes) Line {
    Weight values[kLineBytes / sizeof(Weight)];
  };

  // `inputs` is the length of a row, in numbers.
  explicit Comparison(std::size_t inputs)
      : values(inputs * kCodedRows * sizeof(BFloat16) / kLineBytes),
        wide(values.size()),
        four_bits(inputs / FourBits::kInputs),
        eight_bits(inputs / EightBits::kInputs) {}

  std::vector<Line> values, wide;
  std::vector<FourBits> four_bits;
  std::vector<EightBits> eight_bits;
};

// Whether codes widen to exactly `comparison.values`.
template <class Weight, class Block>
bool is_exact(const CodedKernel<Block, Weight>& kernel, const CodedRows& coded, std::size_t first,
              std::size_t rows, std::size_t in, std::vector<Block>& blocks,
              Comparison<Weight>& comparison) {
  pack_panel<Weight>(coded, first, rows, in, blocks.size(), blocks.data());
  kernel.widen(blocks.data(), blocks.size(), comparison.wide.front().values);
  return std::memcmp(comparison.wide.data(), comparison.values.data(),
                     comparison.values.size() * kLineBytes) == 0;
}

}  // namespace

template <class Weight>
PackedWeight<Weight>::PackedWeight(const LinearKernel<Weight>& kernel, const Number* values,
                                   std::size_t out, std::size_t in,
                                   const std::vector<CodedRows>& coded)
    : kernel_(kernel),
      out_(out),
      in_(in),
      inputs_((in + kNumbers<Weight> * kernel.unit - 1) / (kNumbers<Weight> * kernel.unit) *
              kernel.unit),
      panels_((out + kernel.width - 1) / kernel.width) {
  if constexpr (kIsChecked) check_numbers(values, out * in, "values");
  std::vector<const CodedRows*> chosen(panels_.size());
  if constexpr (kHasCodes) {
    if (!coded.empty() && kernel.four_bits.multiply != nullptr) choose(values, coded, chosen);
  }
  for (PackedPanel& panel : panels_) {
    panel.at = bytes_;
    bytes_ += bytes_of(panel.form);
  }
  memory_.reset(static_cast<std::byte*>(allocate(bytes_)));
#pragma omp parallel for schedule(static)
  for (std::size_t panel = 0; panel < panels_.size(); ++panel) {
    void* const to = memory_.get() + panels_[panel].at;
    const std::size_t first = panel * kernel_.width, rows = rows_of(panel);
    if (panels_[panel].form == Form::kValues) {
      pack_values(panel, values, static_cast<Weight*>(to));
    } else if constexpr (kHasCodes) {
      const std::size_t numbers = inputs_ * kNumbers<Weight>;
      if (panels_[panel].form == Form::kFourBits) {
        pack_panel<Weight>(*chosen[panel], first, rows, in_, numbers / FourBits::kInputs,
                           static_cast<FourBits*>(to));
      } else {
        pack_panel<Weight>(*chosen[panel], first, rows, in_, numbers / EightBits::kInputs,
                           static_cast<EightBits*>(to));
      }
    }
  }
}

template <class Weight>
void PackedWeight<Weight>::choose(const Number* values, const std::vector<CodedRows>& coded,
                                  std::vector<const CodedRows*>& chosen) {
  if constexpr (kHasCodes) {
    std::vector<Comparison<Weight>> comparisons(static_cast<std::size_t>(omp_get_max_threads()),
                                                Comparison<Weight>(inputs_ * kNumbers<Weight>));
#pragma omp parallel for schedule(static)
    for (std::size_t panel = 0; panel < panels_.size(); ++panel) {
      Comparison<Weight>& mine = comparisons[static_cast<std::size_t>(omp_get_thread_num())];
      const std::size_t first = panel * kernel_.width, rows = rows_of(panel);
      for (const CodedRows& each : coded) {
        if (first < each.first || first + rows > each.first + each.rows) continue;
        pack_values(panel, values, mine.values.front().values);
        const bool is_four = each.bits == 4;
        if (is_four ? is_exact(kernel_.four_bits, each, first, rows, in_, mine.four_bits, mine)
                    : is_exact(kernel_.eight_bits, each, first, rows, in_, mine.eight_bits, mine)) {
          panels_[panel].form = is_four ? Form::kFourBits : Form::kEightBits;
          chosen[panel] = &each;
        }
      }
    }
  }
}

template <class Weight>
std::size_t PackedWeight<Weight>::bytes_of(Form form) const {
  switch (form) {
    case Form::kFourBits:
      return inputs_ * kNumbers<Weight> / FourBits::kInputs * sizeof(FourBits);
    case Form::kEightBits:
      return inputs_ * kNumbers<Weight> / EightBits::kInputs * sizeof(EightBits);
    default:
      return inputs_ * kernel_.width * sizeof(Weight);
  }
}

template <class Weight>
std::size_t PackedWeight<Weight>::rows_of(std::size_t panel) const {
  return std::min(kernel_.width, out_ - panel * kernel_.width);
}

template <class Weight>
void PackedWeight<Weight>::pack_values(std::size_t panel, const Number* values, Weight* to) const {
  std::fill_n(to, inputs_ * kernel_.width, Weight{});
  const std::size_t first = panel * kernel_.width;
  for (std::size_t lane = 0; lane < rows_of(panel); ++lane) {
    pack(values + (first + lane) * in_, in_, lane, kernel_.width, to);
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
  for (std::size_t panel = member.begin(panels_.size());
       panel < member.end(panels_.size()); ++panel) {
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
  const void* const from = memory_.get() + panels_[panel].at;
  const Form form = panels_[panel].form;
  if constexpr (kHasCodes) {
    if (form == Form::kFourBits) {
      kernel_.four_bits.multiply(static_cast<const FourBits*>(from), inputs_, rows, stride, count,
                                 sums);
    } else if (form == Form::kEightBits) {
      kernel_.eight_bits.multiply(static_cast<const EightBits*>(from), inputs_, rows, stride,
                                  count, sums);
    }
  }
  if (form == Form::kValues) {
    kernel_.multiply(static_cast<const Weight*>(from), inputs_, rows, stride, count, sums);
  }
  const std::size_t first = panel * width;
  const std::size_t lanes = rows_of(panel);
  for (std::size_t row = 0; row < count; ++row) {
    float* const sum = sums + row * width;
    Number* const to = outputs + row * out_ + first;
    if (bias != nullptr) {
      for (std::size_t lane = 0; lane < lanes; ++lane) sum[lane] += widen(bias[first + lane]);
    }
    for (std::size_t lane = 0; lane < lanes; ++lane) narrow(sum[lane], to[lane]);
  }
}

template class PackedWeight<float>;
template class PackedWeight<BFloat16>;
template class PackedWeight<Pair>;

}  // namespace specgate::kernels
