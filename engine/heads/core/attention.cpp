#include "attention.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "lanes.hpp"

namespace specgate::heads {
namespace {

// Lower bound of a vector's length, so that a zero vector stays zero.
constexpr float kShortest = 1e-3f;

float scale_to(float length, const float* vector, std::size_t width) {
  return length / std::max(std::sqrt(dot(vector, vector, width)), kShortest);
}

}  // namespace

Attention::Attention(Norm norm, Matrix query, Matrix leave, std::vector<float> sharpness,
                     std::vector<float> sink)
    : norm_(std::move(norm)),
      query_(query),
      leave_(leave),
      sharpness_(std::move(sharpness)),
      sink_(std::move(sink)) {}

void Attention::attend(float* sums, std::size_t rows, const Seen* seen) const {
  const std::size_t inner = leave_.out(), width = size() / heads();
  std::vector<float> normed(rows * inner), queries(rows * size()), found(rows * size());
  norm_.apply(sums, rows, normed.data());
  query_.multiply(normed.data(), rows, queries.data());
#pragma omp parallel for schedule(static) collapse(2)
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t head = 0; head < heads(); ++head) {
      const std::size_t at = row * size() + head * width;
      look(queries.data() + at, head, seen[row], found.data() + at);
    }
  }
  leave_.multiply(found.data(), rows, normed.data());
  for (std::size_t i = 0; i < rows * inner; ++i) sums[i] += normed[i];
}

void Attention::look(const float* query, std::size_t head, const Seen& seen, float* found) const {
  const std::size_t width = size() / heads();
  const float scale = scale_to(sharpness_[head], query, width);
  std::vector<float> scores(seen.entries);
  const float* key = seen.keys + head * width;
  scores[0] = sink_[head];
  for (std::size_t entry = 1; entry < seen.entries; ++entry) {
    scores[entry] = scale * dot(query, key + entry * size(), width);
  }
  const float top = *std::max_element(scores.begin(), scores.end());
  const float* value = seen.values + head * width;
  float total = 0.0f;
  for (const float score : scores) {
    const float share = exponential(score - top);
    total += share;
    for (std::size_t i = 0; i < width; ++i) found[i] += share * value[i];
    value += size();
  }
  for (std::size_t i = 0; i < width; ++i) found[i] /= total;
}

Recorder::Recorder(Norm norm, Matrix linear, std::size_t heads)
    : norm_(std::move(norm)), linear_(linear), heads_(heads) {}

void Recorder::record(const float* sums, std::size_t rows, float* keys, float* values) const {
  const std::size_t size = linear_.out() / 2, width = size / heads_;
  std::vector<float> normed(rows * linear_.in()), both(rows * 2 * size);
  norm_.apply(sums, rows, normed.data());
  linear_.multiply(normed.data(), rows, both.data());
  for (std::size_t row = 0; row < rows; ++row) {
    const float* const key = both.data() + row * 2 * size;
    for (std::size_t head = 0; head < heads_; ++head) {
      const float* const part = key + head * width;
      const float scale = scale_to(1.0f, part, width);
      for (std::size_t i = 0; i < width; ++i) keys[row * size + head * width + i] = scale * part[i];
    }
    std::copy_n(key + size, size, values + row * size);
  }
}

}  // namespace specgate::heads
