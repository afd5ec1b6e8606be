// A weight in a kernel's layout, and its products with rows on all threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <type_traits>
#include <vector>

#include "linear_kernels.hpp"
#include "team.hpp"

namespace specgate::kernels {

// Accumulates in float32; the weight, rows, bias and outputs have the same type.
template <class Weight>
class PackedWeight {
 public:
  using Number = NumberOf<Weight>;
  using Input = InputOf<Weight>;

  // Copies a weight (out, in), row-major. A panel whose rows are all in one of `coded` is kept in its
  // codes, where the kernel reads such and they widen to exactly these values. Throws std::bad_alloc.
  PackedWeight(const LinearKernel<Weight>& kernel, const Number* values, std::size_t out,
               std::size_t in, const std::vector<CodedRows>& coded = {});

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
  std::size_t bytes() const { return bytes_; }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  static constexpr bool kHasCodes = std::is_same_v<Number, BFloat16>;
  // A panel of values (inputs, width), with zeros after the last row, or of blocks of codes.
  enum class Form : std::uint8_t { kValues, kFourBits, kEightBits };
  struct PackedPanel {
    Form form = Form::kValues;
    std::size_t at = 0;  // in bytes
  };

  // Finds the panels that can be kept in codes, and those codes.
  void choose(const Number* values, const std::vector<CodedRows>& coded,
              std::vector<const CodedRows*>& chosen);
  std::size_t bytes_of(Form form) const;
  std::size_t rows_of(std::size_t panel) const;
  void pack_values(std::size_t panel, const Number* values, Weight* to) const;

  void multiply_one(std::size_t panel, const Input* rows, std::size_t stride, std::size_t count,
                    const Number* bias, Number* outputs) const;

  const LinearKernel<Weight>& kernel_;
  std::size_t out_;
  std::size_t in_;
  std::size_t inputs_;  // inputs per row, as a kernel reads it
  std::vector<PackedPanel> panels_;
  std::size_t bytes_ = 0;
  std::unique_ptr<std::byte, Free> memory_;
};

}  // namespace specgate::kernels
