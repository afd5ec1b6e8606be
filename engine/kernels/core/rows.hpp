// Norms, rotations, activations and maxima of single rows, for any vector length. Included once for each
// instruction set.
#pragma once

#include <cstdint>

#include "attend.hpp"
#include "exponential.hpp"
#include "row_kernels.hpp"

namespace specgate::kernels {

template <std::size_t kLanes, class Number>
struct RowOf {
  using Lines = WidenedLines<kLanes, Number>;
  using Vector = typename Lines::Vector;
  using Unsigned = typename Lines::Words;
  using Signed = typename HalvesOf<kLanes>::Words;
  static_assert(kRowUnit % kLanes == 0);

  [[gnu::always_inline]] static inline Vector read(const Number* from) {
    return Lines::widened(from);
  }

  // As `narrow` in bfloat16.hpp, and what `read` makes of the result.
  [[gnu::always_inline]] static inline Unsigned rounded(Vector numbers) {
    const auto bits = __builtin_bit_cast(Unsigned, numbers);
    const Unsigned nearest = bits + 0x7fff + (bits >> 16 & 1);
    return (numbers == numbers ? nearest : bits | 0x400000) & 0xffff0000u;
  }
  [[gnu::always_inline]] static inline Vector round(Vector numbers, const float*) {
    return numbers;
  }
  [[gnu::always_inline]] static inline Vector round(Vector numbers, const BFloat16*) {
    return __builtin_bit_cast(Vector, rounded(numbers));
  }

  [[gnu::always_inline]] static inline void write(float* to, Vector numbers) {
    Lines::write(to, numbers);
  }
  [[gnu::always_inline]] static inline void write(BFloat16* to, Vector numbers) {
    using Halves = typename HalvesOf<kLanes>::Type;
    *reinterpret_cast<Halves*>(to) = __builtin_convertvector(rounded(numbers) >> 16, Halves);
  }

  [[gnu::always_inline]] static inline Vector sum_at(const Number* row, const Number* more,
                                                     std::size_t at) {
    return more == nullptr ? read(row + at) : read(row + at) + read(more + at);
  }

  static void norm(Number* row, const Number* more, const Number* weight, float epsilon,
                   std::size_t size, Number* to) {
    Vector squares{};
    for (std::size_t at = 0; at < size; at += kLanes) {
      const Vector numbers = sum_at(row, more, at);
      squares += numbers * numbers;
    }
    float lanes[kLanes];
    Lines::write(lanes, squares);
    float total = 0.0f;
    for (const float lane : lanes) total += lane;
    const float factor = 1.0f / __builtin_sqrtf(total / static_cast<float>(size) + epsilon);
    for (std::size_t at = 0; at < size; at += kLanes) {
      const Vector numbers = sum_at(row, more, at);
      if (more != nullptr) write(row + at, numbers);
      write(to + at, round(numbers * factor, to) * read(weight + at));
    }
  }

  static void rotate(Number* head, const Number* angles, std::size_t dim) {
    const std::size_t half = dim / 2;
    for (std::size_t at = 0; at < half; at += kLanes) {
      const Vector first = read(head + at), second = read(head + half + at);
      const Vector cosine = read(angles + at), sine = read(angles + half + at);
      write(head + at, first * cosine - second * sine);
      write(head + half + at, second * cosine + first * sine);
    }
  }

  static void gate(const Number* gates, const Number* values, std::size_t size, Number* to) {
    constexpr float kOctaves = 1.44269504f, kMost = 126.0f;  // log2(e); more would overflow
    for (std::size_t at = 0; at < size; at += kLanes) {
      const Vector numbers = read(gates + at);
      const Vector octaves = numbers * -kOctaves;
      const Vector limited = octaves > kMost ? Vector{} + kMost : octaves;
      const Vector activated = numbers / (power_of_two<Signed>(limited) + 1.0f);
      write(to + at, round(activated, to) * read(values + at));
    }
  }

  // Each lane keeps the greatest of its numbers and where it was first.
  static std::size_t greatest(const Number* row, std::size_t size) {
    Vector most = Vector{} - __builtin_inff();
    Signed where{};
    const auto look = [&](std::size_t at) __attribute__((always_inline)) {
      const Vector numbers = read(row + at);
      where = numbers > most ? Signed{} + static_cast<std::int32_t>(at) : where;
      most = numbers > most ? numbers : most;
    };
    std::size_t at = 0;
    for (; at + kLanes <= size; at += kLanes) look(at);
    if (at < size) look(size - kLanes);  // some once more, which changes nothing
    float numbers[kLanes];
    Lines::write(numbers, most);
    std::size_t best = 0, found = static_cast<std::size_t>(where[0]);
    for (std::size_t lane = 1; lane < kLanes; ++lane) {
      const std::size_t index = static_cast<std::size_t>(where[lane]) + lane;
      const bool is_first = numbers[lane] == numbers[best] && index < found;
      if (numbers[lane] > numbers[best] || is_first) best = lane, found = index;
    }
    return found;
  }
};

template <std::size_t kLanes, class Number>
constexpr RowKernel<Number> row_kernel_of(const char* name) {
  using Row = RowOf<kLanes, Number>;
  return {name, Row::norm, Row::rotate, Row::gate, Row::greatest};
}

}  // namespace specgate::kernels
