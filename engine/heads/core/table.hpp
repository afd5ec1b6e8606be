// A table with a row per token, of embeddings or of an output layer, in bfloat16.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>

#include "bfloat16.hpp"

namespace specgate::heads {

// Borrows its memory.
class Table {
 public:
  // Of shape (rows, width), row by row.
  Table(const BFloat16* numbers, std::size_t rows, std::size_t width)
      : numbers_(numbers), rows_(rows), width_(width) {}

  std::size_t width() const { return width_; }

  std::size_t rows() const { return rows_; }

  // Adds `factor` times a row to a vector; throws std::out_of_range if there is no such row.
  void add_row(std::int64_t row, float factor, float* vector) const {
    const BFloat16* const numbers = at(row);
    for (std::size_t i = 0; i < width_; ++i) vector[i] += factor * widen(numbers[i]);
  }

  // Writes a row; throws as `add_row`.
  void read_row(std::int64_t row, float* vector) const { widen(at(row), width_, vector); }

 private:
  const BFloat16* at(std::int64_t row) const {
    if (row < 0 || static_cast<std::size_t>(row) >= rows_) {
      throw std::out_of_range("token: there is no such row in the head's table");
    }
    return numbers_ + static_cast<std::size_t>(row) * width_;
  }

  const BFloat16* numbers_;
  std::size_t rows_;
  std::size_t width_;
};

}  // namespace specgate::heads
