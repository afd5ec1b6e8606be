// The Python module engine._core.heads; reads and writes torch's tensors in place.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "attention.hpp"
#include "gated_head.hpp"
#include "matrix.hpp"
#include "norm.hpp"
#include "table.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace specgate::heads {
namespace {

template <class Number, std::size_t Dimensions>
using Array = nb::ndarray<Number, nb::ndim<Dimensions>, nb::device::cpu, nb::c_contig>;
// nanobind has no type for bfloat16; `bfloat16_of` checks the dtype.
using Halves = nb::ndarray<nb::ndim<2>, nb::device::cpu, nb::c_contig>;
// The target's states, bfloat16 or float32.
using States = Halves;
// Keys or values: (requests, slot elements, heads, head size).
using Slots = Array<float, 4>;

void require(bool holds, const char* what) {
  if (!holds) throw std::invalid_argument(what);
}

const BFloat16* bfloat16_of(const Halves& tensor) {
  const nb::dlpack::dtype type = tensor.dtype();
  require(type.code == static_cast<std::uint8_t>(nb::dlpack::dtype_code::Bfloat) &&
              type.bits == 16 && type.lanes == 1,
          "expected a bfloat16 tensor");
  return static_cast<const BFloat16*>(tensor.data());
}

std::vector<std::string> names() {
  std::vector<std::string> found;
  for (const MatrixKernel& kernel : find_matrix_kernels()) found.emplace_back(kernel.name);
  return found;
}

Matrix make_matrix(const Array<const std::int8_t, 2>& values, const Array<const float, 1>& scales,
                   const std::optional<std::string>& kernel) {
  require(values.shape(0) == scales.shape(0), "scales: expected one for each row");
  require(values.shape(1) > 0, "values: must not be empty");
  for (const MatrixKernel& found : find_matrix_kernels()) {
    if (kernel && *kernel != found.name) continue;
    return {values.data(), scales.data(), values.shape(0), values.shape(1), found};
  }
  throw std::invalid_argument("this processor has no kernel " + *kernel);
}

void multiply(const Matrix& matrix, const Array<const float, 2>& inputs,
              const Array<float, 2>& outputs) {
  require(inputs.shape(1) == matrix.in() && outputs.shape(0) == inputs.shape(0) &&
              outputs.shape(1) == matrix.out(),
          "inputs and outputs: expected (rows, in) and (rows, out)");
  matrix.multiply(inputs.data(), inputs.shape(0), outputs.data());
}

Table make_table(const Halves& rows) {
  return {bfloat16_of(rows), rows.shape(0), rows.shape(1)};
}

Norm make_norm(const std::vector<float>& weight, const std::vector<float>& bias) {
  require(!weight.empty() && weight.size() == bias.size(), "norm: weight and bias differ in width");
  return {weight, bias};
}

Attention make_attention(const Norm& norm, const Matrix& query, const Matrix& leave,
                         const std::vector<float>& sharpness, const std::vector<float>& sink) {
  require(!sink.empty() && sharpness.size() == sink.size(), "sink: expected one for each head");
  require(query.out() % sink.size() == 0 && query.in() == norm.width() &&
              leave.in() == query.out() && leave.out() == norm.width(),
          "attention: widths do not fit");
  return {norm, query, leave, sharpness, sink};
}

Recorder make_recorder(const Norm& norm, const Matrix& linear, std::size_t heads) {
  require(heads > 0 && linear.out() % (2 * heads) == 0 && linear.in() == norm.width(),
          "recorder: widths do not fit");
  return {norm, linear, heads};
}

Cell make_cell(const Norm& norm, const Matrix& enter, const Matrix& leave, const Norm& state) {
  const std::size_t inner = norm.width();
  require(enter.in() == inner && enter.out() == 2 * leave.in() && leave.out() == inner &&
              state.width() == inner,
          "cell: widths do not fit");
  return {norm, enter, leave, state};
}

Position make_position(const Matrix& project, const Table& table, float scale,
                       const std::optional<Attention>& attention, const Cell& cell,
                       const Matrix& score, const std::optional<Table>& extension) {
  require(table.width() == project.out() && score.in() == project.out(),
          "position: widths do not fit");
  require(!extension || extension->width() == project.out(), "extension: its width does not fit");
  return {project, table, scale, attention, cell, score, extension};
}

GatedHead make_head(const std::vector<Position>& positions, const std::optional<Norm>& input_norm,
                    const std::optional<Recorder>& recorder,
                    const std::optional<Array<const std::int64_t, 1>>& ids) {
  require(!positions.empty(), "positions: must not be empty");
  const Position& first = positions.front();
  for (const Position& position : positions) {
    require(position.project.out() == first.project.out() &&
                position.score.out() == first.score.out() &&
                position.attention.has_value() == first.attention.has_value() &&
                position.extension.has_value() == first.extension.has_value(),
            "positions: differ in width, vocabulary or window");
    require(&position == &first || position.project.in() == first.project.out(),
            "positions: later ones begin with the state of the one before");
  }
  require(!input_norm || input_norm->width() == positions.front().project.in(),
          "input_norm: its width does not fit");
  require(!ids || ids->shape(0) == first.score.out(), "ids: expected the vocabulary's");
  std::vector<std::int64_t> known;
  if (ids) known.assign(ids->data(), ids->data() + ids->shape(0));
  return {positions, input_norm, recorder, std::move(known)};
}

void read_state(const GatedHead& head, const States& hidden, std::size_t row, float* state) {
  const std::size_t size = head.hidden_size();
  require(hidden.shape(1) == size, "hidden: expected (any, hidden_size)");
  require(row < hidden.shape(0), "hidden: there is no such row");
  if (hidden.dtype() == nb::dtype<float>()) {
    std::copy_n(static_cast<const float*>(hidden.data()) + row * size, size, state);
  } else {
    widen(bfloat16_of(hidden) + row * size, size, state);
  }
}

// Python's `Tables`: keys, values and tokens in the slots of all requests.
using Tables = std::tuple<Slots, Slots, Array<std::int64_t, 2>>;

void check(const Tables& tables) {
  const auto& [keys, values, tokens] = tables;
  require(values.size() == keys.size() && tokens.shape(0) == keys.shape(0) &&
              tokens.shape(1) == keys.shape(1),
          "keys, values and tokens: do not fit");
}

// Python's `View`: tables, the slot of each row's request, and the number of entries that the row
// may attend to.
using View = std::tuple<Tables, std::vector<std::size_t>, std::vector<std::size_t>>;

std::vector<Seen> seen_of(const GatedHead& head, const View& view) {
  const auto& [tables, slots, filled] = view;
  const auto& [keys, values, tokens] = tables;
  check(tables);
  const auto& attention = head.first().attention;
  require(attention && keys.shape(2) == attention->heads() &&
              keys.shape(2) * keys.shape(3) == attention->size(),
          "keys: expected the heads of the attention");
  const std::size_t step = keys.shape(1) * attention->size();
  require(slots.size() == filled.size(), "filled: expected one for each row");
  std::vector<Seen> seen;
  for (std::size_t row = 0; row < slots.size(); ++row) {
    require(slots[row] < keys.shape(0) && filled[row] < keys.shape(1), "slots: out of range");
    const std::size_t begin = slots[row] * step;
    seen.push_back({keys.data() + begin, values.data() + begin,
                    tokens.data() + slots[row] * keys.shape(1), 1 + filled[row]});
  }
  return seen;
}

using Draft = std::pair<std::vector<std::int64_t>, std::vector<float>>;

std::vector<Draft> draft(const GatedHead& head, const States& hidden,
                         const std::vector<std::size_t>& rows,
                         const std::vector<std::int64_t>& tokens, std::size_t length,
                         const std::optional<View>& view) {
  require(tokens.size() == rows.size(), "tokens: expected one for each row");
  const std::vector<Seen> seen = view ? seen_of(head, *view) : std::vector<Seen>{};
  require(!view || seen.size() == rows.size(), "view: expected a slot for each row");
  require(length <= 1 || head.goes_on(), "length: the head has one position");
  std::vector<float> states(rows.size() * head.hidden_size());
  for (std::size_t at = 0; at < rows.size(); ++at) {
    read_state(head, hidden, rows[at], states.data() + at * head.hidden_size());
  }
  std::vector<Draft> drafts(rows.size());
  head.draft(std::move(states), tokens, length, view ? seen.data() : nullptr,
             [&](std::size_t row, std::int64_t token, float probability) {
               drafts[row].first.push_back(token);
               drafts[row].second.push_back(probability);
             });
  return drafts;
}

// Where an entry comes from and goes to: step, state, token, and indices of key and value.
using Row = std::tuple<std::size_t, std::size_t, std::int64_t, std::size_t, std::size_t>;

void write(const GatedHead& head, const std::vector<States>& hidden, const std::vector<Row>& rows,
           const std::vector<std::pair<std::size_t, std::size_t>>& moves, const Tables& tables) {
  require(head.recorder().has_value(), "the head has no window");
  const auto& [keys, values, table_tokens] = tables;
  check(tables);
  const std::size_t size = head.recorder()->size(), elements = keys.shape(0) * keys.shape(1);
  require(keys.shape(2) * keys.shape(3) == size, "keys: expected the heads of the recorder");
  const auto element_of = [&](const Slots& table, std::size_t at) {
    require(at < elements, "keys and values: index out of range");
    return table.data() + at * size;
  };
  std::vector<float> states(rows.size() * head.hidden_size());
  std::vector<std::int64_t> tokens;
  for (const auto& [step, state, token, key, value] : rows) {
    require(step < hidden.size(), "hidden: there is no such step");
    read_state(head, hidden[step], state, states.data() + tokens.size() * head.hidden_size());
    tokens.push_back(token);
  }
  std::vector<float> made_keys(rows.size() * size), made_values(rows.size() * size);
  head.record(std::move(states), tokens, made_keys.data(), made_values.data());
  for (const auto& [to, from] : moves) {
    std::copy_n(element_of(keys, from), size, element_of(keys, to));
  }
  for (std::size_t at = 0; at < rows.size(); ++at) {
    std::copy_n(made_keys.data() + at * size, size, element_of(keys, std::get<3>(rows[at])));
    std::copy_n(made_values.data() + at * size, size, element_of(values, std::get<4>(rows[at])));
    table_tokens.data()[std::get<4>(rows[at])] = tokens[at];
  }
}

// Adapts a function to a Python constructor, which constructs into memory that nanobind allocated.
template <class Made, class... Arguments>
auto by(Made (*make)(Arguments...)) {
  return [make](Made* self, Arguments... arguments) {
    new (self) Made(make(std::forward<Arguments>(arguments)...));
  };
}

}  // namespace

void bind(nb::module_& module) {
  // Borrowed memory lives as long as what borrows it, and no tensor is converted on the way.
  nb::class_<Matrix>(module, "Matrix")
      .def("__init__", by(make_matrix), "values"_a.noconvert(), "scales"_a.noconvert(),
           "kernel"_a.none() = nb::none(), nb::keep_alive<1, 2>(), nb::keep_alive<1, 3>())
      .def_static("kernels", names)
      .def("__call__", &multiply, "inputs"_a.noconvert(), "outputs"_a.noconvert());
  nb::class_<Norm>(module, "Norm").def("__init__", by(make_norm), "weight"_a, "bias"_a);
  nb::class_<Table>(module, "Table")
      .def("__init__", by(make_table), "rows"_a.noconvert(), nb::keep_alive<1, 2>());
  nb::class_<Attention>(module, "Attention")
      .def("__init__", by(make_attention), "norm"_a, "query"_a, "leave"_a, "sharpness"_a, "sink"_a,
           nb::keep_alive<1, 3>(), nb::keep_alive<1, 4>());
  nb::class_<Recorder>(module, "Recorder")
      .def("__init__", by(make_recorder), "norm"_a, "linear"_a, "heads"_a, nb::keep_alive<1, 3>());
  nb::class_<Cell>(module, "Cell")
      .def("__init__", by(make_cell), "norm"_a, "enter"_a, "leave"_a, "state_norm"_a,
           nb::keep_alive<1, 3>(), nb::keep_alive<1, 4>());
  nb::class_<Position>(module, "Position")
      .def("__init__", by(make_position), "project"_a, "table"_a, "scale"_a,
           "attention"_a.none(), "cell"_a, "score"_a, "extension"_a.none(),
           nb::keep_alive<1, 2>(), nb::keep_alive<1, 3>(), nb::keep_alive<1, 5>(),
           nb::keep_alive<1, 6>(), nb::keep_alive<1, 7>(), nb::keep_alive<1, 8>());
  nb::class_<GatedHead>(module, "GatedHead")
      .def("__init__", by(make_head), "positions"_a, "input_norm"_a.none(), "recorder"_a.none(),
           "ids"_a.none(), nb::keep_alive<1, 2>(), nb::keep_alive<1, 4>())
      .def("draft", &draft, "hidden"_a.noconvert(), "rows"_a, "tokens"_a, "length"_a,
           "view"_a.noconvert().none())
      .def("write", &write, "hidden"_a.noconvert(), "rows"_a, "moves"_a, "tables"_a.noconvert());
}

}  // namespace specgate::heads
