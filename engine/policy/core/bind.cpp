// Python bindings of the policy, as engine._core.policy.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "curve.hpp"
#include "forward.hpp"
#include "gate.hpp"
#include "pricing.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace specgate::policy {
namespace {

using Numbers = std::vector<double>;
using Tokens = std::vector<std::int32_t>;
using Pairs = std::vector<std::pair<double, double>>;

// Calls `each` for the items of a sequence until it returns false.
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

// Returns a draft's survival up to and including the first token below the price.
Numbers up_to(nb::handle survival, double price) {
  Numbers numbers;
  for_each(survival, [&](nb::handle item) {
    numbers.push_back(number_of(item));
    return numbers.back() >= price;
  });
  return numbers;
}

// Returns the survival of the tokens of all drafts in one vector.
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

std::vector<Point> points_of(const Pairs& pairs) {
  if (pairs.empty()) throw nb::value_error("a curve has at least one point");
  std::vector<Point> points;
  for (const auto& [at, time] : pairs) points.push_back({at, time});
  return points;
}

Pairs pairs_of(const std::vector<Point>& points) {
  Pairs pairs;
  for (const Point& point : points) pairs.emplace_back(point.at, point.time);
  return pairs;
}

}  // namespace

void bind(nb::module_& module) {
  nb::class_<Proposals>(module, "Proposals")
      .def("expected_gain", &Proposals::expected_gain, "most"_a, "price"_a, "had"_a = 0.0)
      .def("propose",
           [](Proposals& proposals, const Tokens& tokens, const std::optional<Numbers>& confidence) {
             return proposals.propose(tokens, confidence);
           },
           "tokens"_a, "confidence"_a.none() = nb::none())
      .def("example", &Proposals::example)
      .def("usual", &Proposals::usual)
      .def("learn_verified", &Proposals::learn_verified, "verified"_a, "accepted"_a)
      .def("learn", [](Proposals& proposals, const Tokens& sampled) { proposals.learn(sampled); },
           "sampled"_a);

  nb::class_<ForwardDrafter>(module, "ForwardDrafter")
      .def(nb::init<std::size_t, bool, int>(), "most"_a, nb::kw_only(), "calibrated"_a,
           "probe_steps"_a = 64)
      .def_prop_ro("most", &ForwardDrafter::most)
      .def("proposals", &ForwardDrafter::proposals, "temperature"_a = 0.0)
      .def("runs", &ForwardDrafter::runs, nb::kw_only(), "pays"_a)
      .def("trial", &ForwardDrafter::trial, "sequences"_a);

  nb::class_<Load>(module, "Load")
      .def("__init__",
           [](Load* self, std::size_t sequences, std::size_t prefill_tokens,
              std::size_t context_tokens, std::size_t waiting,
              std::optional<std::size_t> room_tokens, std::size_t read_tokens) {
             new (self) Load{sequences, prefill_tokens, context_tokens,
                             waiting,   read_tokens,    room_tokens};
           },
           "sequences"_a, "prefill_tokens"_a = 0, "context_tokens"_a = 0, "waiting"_a = 0,
           "room_tokens"_a.none() = nb::none(), "read_tokens"_a = 0)
      .def_ro("sequences", &Load::sequences)
      .def_ro("prefill_tokens", &Load::prefill_tokens)
      .def_ro("context_tokens", &Load::context_tokens)
      .def_ro("waiting", &Load::waiting)
      .def_ro("room_tokens", &Load::room_tokens)
      .def_ro("read_tokens", &Load::read_tokens);

  nb::class_<Gate>(module, "Gate")
      .def("__init__",
           [](Gate* self, const Pairs& steps, const Pairs& passes,
              const std::vector<std::size_t>& edges, std::size_t most_sequences,
              std::size_t longest_draft, std::optional<std::size_t> max_batch_size, double least) {
             Costs costs{points_of(steps), points_of(passes), edges, most_sequences, longest_draft};
             new (self) Gate(std::move(costs), max_batch_size.value_or(SIZE_MAX), least);
           },
           "steps"_a, "passes"_a, nb::kw_only(), "edges"_a, "most_sequences"_a, "longest_draft"_a,
           "max_batch_size"_a.none(), "least"_a)
      .def("learn", &Gate::learn, "sequences"_a, "drafted"_a, "emitted"_a)
      .def("learn_trust", &Gate::learn_trust, "stated"_a, "accepted"_a)
      .def("believe", [](Gate& gate, const Pairs& measured) { gate.believe(points_of(measured)); },
           "measured"_a)
      .def("observe_step", &Gate::observe_step, "tokens"_a, "context_tokens"_a, "seconds"_a,
           "verifying"_a = 0)
      .def("observe_head", &Gate::observe_head, "sequences"_a, "seconds"_a)
      .def("begin", &Gate::begin, "load"_a)
      .def("settle",
           [](Gate& gate,
              nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu> pool) {
             Numbers copy(pool.data(), pool.data() + pool.size());
             return gate.settle(copy);
           },
           "drafts"_a)
      .def("settle",
           [](Gate& gate, nb::handle drafts) {
             Numbers pool = pooled(drafts);
             return gate.settle(pool);
           },
           "drafts"_a)
      .def("offer",
           [](const Gate& gate,
              nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu> pool) {
             Numbers copy(pool.data(), pool.data() + pool.size());
             const Offer offer = gate.offer(copy);
             return nb::make_tuple(offer.price, offer.gain);
           },
           "survival"_a)
      .def("cost_of_pass", &Gate::cost_of_pass, "sequences"_a)
      .def("predict_step",
           [](const Gate& gate, double tokens, double context_tokens) {
             return gate.steps().time(tokens, context_tokens);
           },
           "tokens"_a, "context_tokens"_a = 0.0)
      .def("step_curve", [](const Gate& gate) { return pairs_of(gate.steps().points()); })
      .def("pass_curve", [](const Gate& gate) { return pairs_of(gate.passes().points()); })
      .def("predict_verification",
           [](const Gate& gate, double sequences) {
             return gate.steps().verification(sequences);
           },
           "sequences"_a)
      .def_prop_ro("buys", &Gate::buys)
      .def_prop_ro("floor", &Gate::floor)
      .def_prop_ro("price", &Gate::price)
      .def_prop_ro("goodput", &Gate::goodput)
      .def_prop_ro("trust", &Gate::trust)
      .def_prop_ro("is_measured", [](const Gate& gate) { return gate.steps().is_measured(); })
      .def_prop_ro("is_limited", &Gate::is_limited);

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
