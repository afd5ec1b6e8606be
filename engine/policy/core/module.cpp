// The Python module engine._core.policy: Python's lists in, the arithmetic called, lists out.
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

#include "acceptance.hpp"
#include "confidence.hpp"
#include "cost_model.hpp"
#include "curve.hpp"
#include "forward.hpp"
#include "gate.hpp"
#include "guesser.hpp"
#include "pace.hpp"
#include "pricing.hpp"
#include "regime.hpp"
#include "second_opinion.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace specgate::policy {
namespace {

using Numbers = std::vector<double>;
using Tokens = std::vector<std::int32_t>;
using Pairs = std::vector<std::pair<double, double>>;

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

void bind_policy(nb::module_& module) {
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
      .def("expected", &Guesser::expected)
      .def("expected_gain", &Guesser::expected_gain, "most"_a, "price"_a)
      .def("propose",
           [](Guesser& guesser, const Tokens& tokens, const std::optional<Numbers>& confidence) {
             return guesser.propose(tokens, confidence);
           },
           "tokens"_a, "confidence"_a.none() = nb::none())
      .def("expected_gain_beside", &Guesser::expected_gain_beside, "first"_a)
      .def("weigh",
           [](Guesser& guesser, const Tokens& tokens, const Numbers& survival) {
             if (survival.size() > tokens.size()) throw nb::value_error("more chances than tokens");
             SecondOpinion::Verdict verdict = guesser.weigh({tokens, survival});
             return std::make_pair(std::move(verdict.draft), std::move(verdict.guess));
           },
           "tokens"_a, "survival"_a)
      .def("brought", &Guesser::brought, "first"_a, "gain"_a)
      .def("learn", [](Guesser& guesser, const Tokens& sampled) { guesser.learn(sampled); },
           "sampled"_a);

  nb::class_<ForwardDrafter>(module, "ForwardDrafter")
      .def(nb::init<std::size_t, bool, int>(), "most"_a, nb::kw_only(), "calibrated"_a,
           "probe_steps"_a = 64)
      .def_prop_ro("most", &ForwardDrafter::most)
      .def("guesser", &ForwardDrafter::guesser, "temperature"_a = 0.0)
      .def("runs", &ForwardDrafter::runs, nb::kw_only(), "pays"_a)
      .def("trial", &ForwardDrafter::trial, "rows"_a);

  module.attr("SUFFIX") = static_cast<int>(kBySuffix);
  module.attr("HEAD") = static_cast<int>(kByHead);
  module.attr("NATIVE") = static_cast<int>(kByNative);

  nb::class_<Curve>(module, "Curve")
      .def("__init__",
           [](Curve* self, const Pairs& points) { new (self) Curve(points_of(points)); },
           "points"_a)
      .def("time", &Curve::time, "tokens"_a)
      .def("beside",
           [](const Curve& curve, const Numbers& more) {
             if (more.empty()) throw nb::value_error("more: must not be empty");
             return curve.beside(more);
           },
           "more"_a)
      .def("cheapest", &Curve::cheapest, "tokens"_a, "most"_a)
      .def("settle",
           [](const Curve& curve, nb::handle drafts, std::size_t tokens, double worth,
              double least, double reach, std::optional<std::size_t> most) {
             Numbers pool = pooled(drafts);
             const auto [price, gain] =
                 curve.settle(pool, tokens, {worth, least, most.value_or(SIZE_MAX), reach});
             return std::pair(price, gain);
           },
           "drafts"_a, "tokens"_a, nb::kw_only(), "worth"_a, "least"_a, "reach"_a,
           "most"_a.none() = nb::none());

  nb::class_<CostModel>(module, "CostModel")
      .def("__init__",
           [](CostModel* self, const Pairs& profile, std::size_t longest) {
             new (self) CostModel(points_of(profile), longest);
           },
           "profile"_a, nb::kw_only(), "longest"_a)
      .def("time", &CostModel::time, "tokens"_a, "context_tokens"_a = 0.0)
      .def("observe", &CostModel::observe, "tokens"_a, "context_tokens"_a, "seconds"_a,
           "verifying"_a = 0.0)
      .def("verification", &CostModel::verification, "rows"_a)
      .def("verification_doubt", &CostModel::verification_doubt, "rows"_a)
      .def_prop_ro("curve", [](const CostModel& model) { return model.curve(); })
      .def_prop_ro("points", [](const CostModel& model) { return pairs_of(model.points()); });

  nb::class_<SourceFloor>(module, "SourceFloor")
      .def(nb::init<double>(), "ratio"_a)
      .def("learn", &SourceFloor::learn, "drafted"_a, "accepted"_a)
      .def("wait", &SourceFloor::wait)
      .def_prop_ro("least", &SourceFloor::least);

  nb::class_<Load>(module, "Load")
      .def("__init__",
           [](Load* self, std::size_t rows, std::size_t prefill_tokens,
              std::size_t context_tokens, std::size_t waiting,
              std::optional<std::size_t> room_tokens, std::size_t read_tokens) {
             new (self) Load{rows,    prefill_tokens, context_tokens,
                             waiting, read_tokens,    room_tokens};
           },
           "rows"_a, "prefill_tokens"_a = 0, "context_tokens"_a = 0, "waiting"_a = 0,
           "room_tokens"_a.none() = nb::none(), "read_tokens"_a = 0)
      .def_ro("rows", &Load::rows)
      .def_ro("prefill_tokens", &Load::prefill_tokens)
      .def_ro("context_tokens", &Load::context_tokens)
      .def_ro("waiting", &Load::waiting)
      .def_ro("room_tokens", &Load::room_tokens)
      .def_ro("read_tokens", &Load::read_tokens);

  nb::class_<Pace>(module, "Pace")
      .def(nb::init<>())
      .def("learn", &Pace::learn, "tokens"_a)
      .def("count", &Pace::count, "mean"_a);

  nb::class_<Regime>(module, "Regime")
      .def(nb::init<>())
      .def_prop_ro("is_open", &Regime::is_open)
      .def("learn", &Regime::learn, nb::kw_only(), "drafted"_a);

  nb::class_<Gate>(module, "Gate")
      .def("__init__",
           [](Gate* self, const Pairs& steps, const Pairs& passes, std::size_t longest,
              std::size_t most_rows, std::size_t longest_draft,
              std::optional<std::size_t> max_batch_size,
              double min_acceptance_ratio, double least) {
             const Limits limits{max_batch_size.value_or(SIZE_MAX), min_acceptance_ratio};
             new (self) Gate(points_of(steps), points_of(passes), longest, most_rows,
                             longest_draft, limits, least);
           },
           "steps"_a, "passes"_a, nb::kw_only(), "longest"_a, "most_rows"_a,
           "longest_draft"_a, "max_batch_size"_a.none(),
           "min_acceptance_ratio"_a, "least"_a)
      .def("learn",
           [](Gate& gate, std::size_t rows, std::size_t drafted, std::size_t emitted,
              std::optional<double> promised) {
             const auto kept = static_cast<double>(emitted) - static_cast<double>(rows);
             gate.learn(rows, drafted, emitted, promised.value_or(kept));
           },
           "rows"_a, "drafted"_a, "emitted"_a, "promised"_a.none() = nb::none())
      .def("learn_source",
           [](Gate& gate, int source, std::size_t drafted, std::size_t accepted) {
             if (source <= 0 || source >= static_cast<int>(kDraftersEnd)) {
               throw nb::value_error("source: must be SUFFIX, HEAD or NATIVE");
             }
             gate.learn_source(static_cast<Drafter>(source), drafted, accepted);
           },
           "source"_a, "drafted"_a, "accepted"_a)
      .def("observe_step", &Gate::observe_step, "tokens"_a, "context_tokens"_a, "seconds"_a,
           "verifying"_a = 0)
      .def("observe_head", &Gate::observe_head, "rows"_a, "seconds"_a)
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
      .def("cost_of_pass", &Gate::cost_of_pass, "rows"_a)
      .def("least",
           [](const Gate& gate, int source) {
             if (source <= 0 || source >= static_cast<int>(kDraftersEnd)) {
               throw nb::value_error("source: must be SUFFIX, HEAD or NATIVE");
             }
             return gate.least(static_cast<Drafter>(source));
           },
           "source"_a)
      .def("predict_step",
           [](const Gate& gate, double tokens, double context_tokens) {
             return gate.steps().time(tokens, context_tokens);
           },
           "tokens"_a, "context_tokens"_a = 0.0)
      .def("step_curve", [](const Gate& gate) { return pairs_of(gate.steps().points()); })
      .def("pass_curve", [](const Gate& gate) { return pairs_of(gate.passes().points()); })
      .def("predict_verification",
           [](const Gate& gate, double rows) { return gate.steps().verification(rows); },
           "rows"_a)
      .def("count", &Gate::count, "pace"_a)
      .def_prop_ro("buys", &Gate::buys)
      .def_prop_ro("floor", &Gate::floor)
      .def_prop_ro("price", &Gate::price)
      .def_prop_ro("goodput", &Gate::goodput)
      .def_prop_ro("promise", &Gate::promise)
      .def_prop_ro("is_measured", [](const Gate& gate) { return gate.steps().is_measured(); })
      .def_prop_ro("is_probing", &Gate::is_probing)
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
