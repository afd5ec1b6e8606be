// Python bindings of the batch, as engine._core.drafting: the order of a step, and conversions.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "batch.hpp"
#include "index.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace specgate::drafting {
namespace {

std::string_view name_of(nb::handle name) {
  Py_ssize_t bytes = 0;
  const char* text = PyUnicode_AsUTF8AndSize(name.ptr(), &bytes);
  if (text == nullptr) throw nb::python_error();
  return {text, static_cast<std::size_t>(bytes)};
}

// The items of a list or another sequence.
class Items {
 public:
  explicit Items(nb::handle sequence)
      : items_(nb::steal(PySequence_Fast(sequence.ptr(), "must be a sequence"))) {
    if (!items_.is_valid()) throw nb::python_error();
  }
  std::size_t size() const {
    return static_cast<std::size_t>(PySequence_Fast_GET_SIZE(items_.ptr()));
  }
  nb::handle operator[](std::size_t at) const {
    if (at >= size()) throw nb::index_error("fewer sequences than there were");
    return PySequence_Fast_GET_ITEM(items_.ptr(), static_cast<Py_ssize_t>(at));
  }

 private:
  nb::object items_;
};

void read_tokens(nb::handle sequence, std::vector<Token>& tokens) {
  const Items items(sequence);
  tokens.clear();
  for (std::size_t at = 0; at < items.size(); ++at) {
    const long token = PyLong_AsLong(items[at].ptr());
    if (token == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
    if (token < INT32_MIN || token > INT32_MAX) throw nb::value_error("a token id must be int32");
    tokens.push_back(static_cast<Token>(token));
  }
}

void read_chances(nb::handle sequence, std::vector<double>& chances) {
  const Items items(sequence);
  chances.clear();
  for (std::size_t at = 0; at < items.size(); ++at) {
    chances.push_back(PyFloat_AsDouble(items[at].ptr()));
    if (chances.back() == -1.0 && PyErr_Occurred() != nullptr) throw nb::python_error();
  }
}

// A batch, the Python objects that it keeps alive, and the requests of the last step.
class PyBatch {
 public:
  PyBatch(nb::object gate, nb::object index, const policy::ForwardDrafter& native,
          const policy::ForwardDrafter& head, nb::object make_origin)
      : gate_(std::move(gate)),
        index_(std::move(index)),
        batch_(nb::cast<policy::Gate&>(gate_), nb::cast<suffix::Index*>(index_), native, head),
        make_origin_(std::move(make_origin)) {
    for (const Source source : {kNone, kSuffix, kHead, kNative, kPrediction}) {
      origins_.push_back(make_origin_(static_cast<int>(source), 0, 0));
    }
    // In the order of enum Decision.
    for (const char* decision : {"drafted", "priced_out", "unknown", "limited"}) {
      decisions_.push_back(nb::steal(PyUnicode_InternFromString(decision)));
    }
  }

  std::vector<std::string> running() const {
    std::vector<std::string> names;
    batch_.for_each([&](const Request& request) { names.push_back(request.name); });
    return names;
  }

  // `control`: an engine.drafting.Control.
  void begin(nb::handle name, nb::handle control, std::size_t most, std::int64_t left,
             std::size_t known) {
    const auto wants = [&](const char* source) { return nb::cast<bool>(control.attr(source)); };
    end(name);
    batch_.begin(name_of(name), {most, left, known, wants("suffix"), wants("head"), wants("native"),
                                 nb::cast<std::optional<double>>(control.attr("price")),
                                 nb::cast<double>(control.attr("temperature"))});
  }

  void join(nb::handle name) {
    Request* request = batch_.find(name_of(name));
    if (request == nullptr) throw nb::key_error("the request has not begun");
    request->in_source = true;
  }

  // Returns whether the index has to be told.
  bool end(nb::handle name) {
    Request* request = batch_.find(name_of(name));
    if (request == nullptr) return false;
    clear();
    for (CachedRequest& cached : last_step_) {
      if (cached.request == request) cached = {};
    }
    const bool in_source = request->in_source;
    batch_.end(*request);
    return in_source;
  }

  // If some requests with tokens are unknown, returns their names and does nothing else.
  nb::object enter(nb::handle requests, nb::handle sampled, const std::vector<std::size_t>& verified,
                   const policy::Load& load,
                   const std::optional<std::vector<std::int64_t>>& in_flight) {
    const Items names(requests);
    const Items tokens(sampled);
    if (names.size() != tokens.size() || names.size() != verified.size() ||
        (in_flight && names.size() != in_flight->size())) {
      throw nb::value_error("requests, sampled, verified and in_flight must have equal lengths");
    }
    clear();
    nb::object unknown;
    last_step_.resize(names.size());
    for (std::size_t at = 0; at < names.size(); ++at) {
      read_tokens(tokens[at], tokens_);
      if (tokens_.empty()) continue;
      if (Request* request = find(at, names[at])) {
        batch_.add(*request, at, tokens_, verified[at],
                   in_flight ? InFlight((*in_flight)[at]) : std::nullopt);
      } else {
        if (!unknown.is_valid()) unknown = nb::list();
        nb::borrow<nb::list>(unknown).append(names[at]);
      }
    }
    if (unknown.is_valid()) {
      clear();
      return unknown;
    }
    batch_.learn(load);
    return nb::none();
  }

  std::size_t ask() { return batch_.ask(); }

  // The price is settled again after each source that proposed drafts.
  // `on_device`: source and number of tokens that are made there in the step in flight.
  nb::object draft(nb::handle native, nb::handle head,
                   const std::optional<std::pair<int, std::size_t>>& on_device) {
    double price = batch_.settle();
    if (on_device) {
      batch_.offer_on_device(static_cast<Source>(on_device->first), on_device->second, price);
      price = batch_.settle();
    }
    if (!native.is_none()) {
      offer_native(native, price);
      price = batch_.settle();
    }
    if (!head.is_none() && offer_head(head, price)) price = batch_.settle();
    return cut(price);
  }

  double price() const { return batch_.price(); }
  std::size_t native_tokens() { return batch_.native_tokens(); }
  std::size_t head_tokens() const { return batch_.head_tokens(); }

 private:
  // A request of the last step. vLLM passes the same string object while it runs.
  struct CachedRequest {
    nb::object name;
    Request* request = nullptr;
  };

  void offer_native(nb::handle drafts, double price) {
    const Items all(drafts);
    for (Sequence& sequence : batch_.sequences()) {
      read_tokens(all[sequence.at], tokens_);
      batch_.offer_native(sequence, tokens_, price);
    }
  }

  // Runs the head if a pass pays. Returns whether it ran.
  bool offer_head(nb::handle head, double price) {
    asked_sequences_ = batch_.head_sequences(price);
    if (asked_sequences_.empty()) return false;
    nb::list places;
    for (const Sequence* sequence : asked_sequences_) places.append(sequence->at);
    const nb::object guesses = head(places);
    const Items all(guesses);
    if (all.size() != asked_sequences_.size()) {
      throw nb::value_error("the head must return a proposal for each sequence");
    }
    for (std::size_t at = 0; at < all.size(); ++at) {
      const Items guess(all[at]);
      read_tokens(guess[0], tokens_);
      read_chances(guess[1], confidence_);
      batch_.offer_head(*asked_sequences_[at], tokens_, confidence_, price);
    }
    return true;
  }

  nb::object cut(double price) {
    return collect([&](auto each) {
      return batch_.cut(price, [&](const Sequence& sequence, std::size_t length) {
        each(sequence, batch_.drafts().tokens(sequence.best).first(length),
             sequence.best.origin.cut(length));
      });
    });
  }

  // `decide` calls its argument with each sequence that drafts, its tokens and their origin.
  template <class Decide>
  nb::object collect(Decide decide) {
    const auto places = static_cast<Py_ssize_t>(last_step_.size());
    nb::object tokens = nb::steal(PyList_New(places));
    nb::object origins = nb::steal(PyList_New(places));
    for (Py_ssize_t at = 0; at < places; ++at) {
      PyList_SET_ITEM(origins.ptr(), at, nb::none().release().ptr());
    }
    const auto take = [&](const Sequence& sequence, std::span<const Token> draft,
                          const Origin& origin) {
      const auto at = static_cast<Py_ssize_t>(sequence.at);
      PyList_SET_ITEM(tokens.ptr(), at, list_of(draft).release().ptr());
      PyList_SetItem(origins.ptr(), at, origin_of(origin).release().ptr());
    };
    const Decision decision = decide(take);
    for (Py_ssize_t at = 0; at < places; ++at) {
      if (PyList_GET_ITEM(tokens.ptr(), at) == nullptr) {
        PyList_SET_ITEM(tokens.ptr(), at, PyList_New(0));
      }
    }
    return nb::make_tuple(tokens, origins, decisions_[decision], batch_.context_tokens());
  }

  // The step's sequences point to requests, which may end.
  void clear() {
    batch_.clear();
    asked_sequences_.clear();
  }

  Request* find(std::size_t at, nb::handle name) {
    CachedRequest& cached = last_step_[at];
    if (cached.request == nullptr || !cached.name.is(name)) {
      cached = {nb::borrow(name), batch_.find(name_of(name))};
    }
    return cached.request;
  }

  static nb::object list_of(std::span<const Token> tokens) {
    nb::object list = nb::steal(PyList_New(static_cast<Py_ssize_t>(tokens.size())));
    Py_ssize_t at = 0;
    for (const Token token : tokens) PyList_SET_ITEM(list.ptr(), at++, PyLong_FromLong(token));
    return list;
  }

  nb::object origin_of(const Origin& origin) const {
    if (origin.second == kNone) return origins_[origin.first];
    return make_origin_(static_cast<int>(origin.first), static_cast<int>(origin.second),
                        origin.first_length);
  }

  nb::object gate_;
  nb::object index_;
  Batch batch_;
  nb::object make_origin_;
  std::vector<nb::object> origins_;    // by source, for drafts of a single source
  std::vector<nb::object> decisions_;  // names, in the order of enum Decision
  std::vector<CachedRequest> last_step_;
  std::vector<Sequence*> asked_sequences_;
  std::vector<Token> tokens_;
  std::vector<double> confidence_;
};

}  // namespace

void bind(nb::module_& module) {
  nb::class_<PyBatch>(module, "Batch")
      .def(nb::init<nb::object, nb::object, const policy::ForwardDrafter&,
                    const policy::ForwardDrafter&, nb::object>(),
           "gate"_a, "index"_a.none(), nb::kw_only(), "native"_a, "head"_a, "origin"_a)
      .def_prop_ro("running", &PyBatch::running)
      .def("begin", &PyBatch::begin, "request"_a, "control"_a, nb::kw_only(), "most"_a, "left"_a,
           "known"_a)
      .def("join", &PyBatch::join, "request"_a)
      .def("end", &PyBatch::end, "request"_a)
      .def("enter", &PyBatch::enter, "requests"_a, "sampled"_a, "verified"_a, "load"_a,
           "in_flight"_a = nb::none())
      .def("ask", &PyBatch::ask)
      .def("draft", &PyBatch::draft, "native"_a.none(), "head"_a.none(),
           "on_device"_a.none() = nb::none())
      .def_prop_ro("price", &PyBatch::price)
      .def("native_tokens", &PyBatch::native_tokens)
      .def("head_tokens", &PyBatch::head_tokens);
}

}  // namespace specgate::drafting
