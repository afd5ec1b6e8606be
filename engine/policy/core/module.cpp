// The Python module engine.policy._core: Python's lists in, the arithmetic called, lists out.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "acceptance.hpp"
#include "confidence.hpp"
#include "forward.hpp"
#include "guesser.hpp"
#include "price.hpp"
#include "pricing.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace specgate::policy {
namespace {

using Numbers = std::vector<double>;
using Tokens = std::vector<std::int32_t>;

// The items of a sequence, until `each` returns false.
template <class Each>
void for_each(nb::handle sequence, Each each) {
  const nb::object items = nb::steal(PySequence_Fast(sequence.ptr(), "must be a sequence"));
  if (!items.is_valid()) throw nb::python_error();
  for (Py_ssize_t at = 0; at < PySequence_Fast_GET_SIZE(items.ptr()); ++at) {
    if (!each(nb::handle(PySequence_Fast_GET_ITEM(items.ptr(), at)))) return;
  }
}

double number_of(nb::handle value) {
  const double number = PyFloat_AsDouble(value.ptr());
  if (number == -1.0 && PyErr_Occurred() != nullptr) throw nb::python_error();
  return number;
}

// A draft's survival up to the first token that does not pay; nobody looks behind that.
Numbers up_to(nb::handle survival, double price) {
  Numbers numbers;
  for_each(survival, [&](nb::handle item) {
    numbers.push_back(number_of(item));
    return numbers.back() >= price;
  });
  return numbers;
}

// The survival of the tokens of all drafts, in one piece.
Numbers pooled(nb::handle drafts) {
  Numbers pool;
  for_each(drafts, [&](nb::handle draft) {
    for_each(draft, [&](nb::handle item) {
      pool.push_back(number_of(item));
      return true;
    });
    return true;
  });
  return pool;
}

}  // namespace

NB_MODULE(_core, module) {
  // A worker holds its prices until the interpreter ends, which nanobind takes for a leak.
  nb::set_leak_warnings(false);

  nb::class_<PositionAcceptance>(module, "PositionAcceptance")
      .def(nb::init<std::size_t, std::shared_ptr<PositionAcceptance>, double>(), "positions"_a,
           nb::kw_only(), "parent"_a.none() = nb::none(), "start"_a = 0.5)
      .def_prop_ro("positions", &PositionAcceptance::positions)
      .def("learn", &PositionAcceptance::learn, "drafted"_a, "accepted"_a)
      .def("rates", &PositionAcceptance::rates)
      .def("survival", &PositionAcceptance::survival);

  nb::class_<ConfidenceCalibration>(module, "ConfidenceCalibration")
      .def(nb::init<std::size_t>(), "positions"_a)
      .def("survival",
           [](const ConfidenceCalibration& calibration, const Numbers& confidence,
              const Numbers& accepted) { return calibration.survival(confidence, accepted); },
           "confidence"_a, "accepted"_a)
      .def("learn",
           [](ConfidenceCalibration& calibration, const Numbers& confidence,
              const Numbers& accepted,
              std::size_t right) { calibration.learn(confidence, accepted, right); },
           "confidence"_a, "accepted"_a, "right"_a);

  nb::class_<Guesser>(module, "Guesser")
      .def(nb::init<std::shared_ptr<PositionAcceptance>, std::shared_ptr<ConfidenceCalibration>>(),
           "overall"_a, "calibration"_a.none() = nb::none())
      .def("expected", &Guesser::expected)
      .def("expected_gain", &Guesser::expected_gain, "most"_a, "price"_a)
      .def("propose",
           [](Guesser& guesser, const Tokens& tokens, const std::optional<Numbers>& confidence) {
             return guesser.propose(tokens, confidence);
           },
           "tokens"_a, "confidence"_a.none() = nb::none())
      .def("learn", [](Guesser& guesser, const Tokens& sampled) { guesser.learn(sampled); },
           "sampled"_a);

  nb::class_<ForwardDrafter>(module, "ForwardDrafter")
      .def(nb::init<std::size_t, bool, int>(), "most"_a, nb::kw_only(), "calibrated"_a,
           "probe_steps"_a = 64)
      .def_prop_ro("most", &ForwardDrafter::most)
      .def("guesser", &ForwardDrafter::guesser)
      .def("runs", &ForwardDrafter::runs, nb::kw_only(), "pays"_a);

  nb::class_<Marginals>(module, "Marginals")
      .def(nb::init<Numbers>(), "added"_a)
      .def("at", &Marginals::at, "tokens"_a)
      .def("time", &Marginals::time, "tokens"_a)
      .def("settle",
           [](const Marginals& marginals, nb::handle drafts, std::size_t tokens, double worth) {
             Numbers pool = pooled(drafts);
             return marginals.settle(pool, tokens, worth);
           },
           "drafts"_a, "tokens"_a, "worth"_a);

  nb::class_<Price>(module, "Price")
      .def(nb::init<std::shared_ptr<const Marginals>, double, double>(), "cost"_a, "margin"_a,
           "least"_a)
      .def("learn", &Price::learn, "rows"_a, "drafted"_a, "emitted"_a)
      .def("goodput", &Price::goodput, "rows"_a)
      .def("floor", &Price::floor, "rows"_a)
      .def("of_time", &Price::of_time, "time"_a, "rows"_a)
      .def("settle",
           [](const Price& price, nb::handle drafts, std::size_t rows) {
             Numbers pool = pooled(drafts);
             return price.settle(pool, rows);
           },
           "drafts"_a, "rows"_a);

  module.def(
      "paying",
      [](nb::handle survival, double price) { return paying(up_to(survival, price), price); },
      "survival"_a, "price"_a);
  module.def(
      "worth",
      [](nb::handle survival, double price) { return worth(up_to(survival, price), price); },
      "survival"_a, "price"_a);
}

}  // namespace specgate::policy
