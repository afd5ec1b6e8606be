// A source in Python (source.py) as a step's source: called for each row, by name.
#pragma once

#include <nanobind/nanobind.h>

#include <utility>

#include "source.hpp"

namespace specgate::drafting {

class PythonSource final : public RowSource {
 public:
  explicit PythonSource(nanobind::object source) : source_(std::move(source)) {}

  void advance(std::span<Row> rows, double floor, Drafts& drafts) override;
  Draft go_on(const Row& row, const Draft& draft, double floor, Drafts& drafts) override;

 private:
  nanobind::object source_;
};

}  // namespace specgate::drafting
