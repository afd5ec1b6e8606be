// The Python module engine._core.drafting: Python's lists in, a step of the batch in its order,
// lists out.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "batch.hpp"
#include "index.hpp"
#include "index_source.hpp"
#include "python_source.hpp"

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
    if (at >= size()) throw nb::index_error("fewer rows than there were");
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
    if (token < INT32_MIN || token > INT32_MAX) throw nb::value_error("no token id is so large");
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

// The batch, the Python objects that it needs, and where its rows were in the last step.
class PyBatch {
 public:
  PyBatch(nb::object gate, nb::object source, const policy::ForwardDrafter& native,
          const policy::ForwardDrafter& head, nb::object make_origin)
      : gate_(std::move(gate)),
        batch_(nb::cast<policy::Gate&>(gate_), native, head),
        make_origin_(std::move(make_origin)) {
    for (const Source whose : {kNobody, kSuffix, kHead, kNative, kPrediction}) {
      origins_.push_back(make_origin_(static_cast<int>(whose), 0, 0));
    }
    // In the order of `Verdict`.
    for (const char* verdict : {"drafted", "probed", "priced_out", "unknown", "limited"}) {
      verdicts_.push_back(nb::steal(PyUnicode_InternFromString(verdict)));
    }
    set_source(std::move(source));
  }

  nb::object source() const { return source_; }

  // An index is asked itself, whatever else is called; None for none.
  void set_source(nb::object source) {
    std::unique_ptr<RowSource> asked;
    suffix::Index* index = nullptr;
    if (nb::try_cast(source, index) && index != nullptr) {
      asked = std::make_unique<IndexSource>(*index);
    } else if (!source.is_none()) {
      asked = std::make_unique<PythonSource>(source);
    }
    batch_.ask_through(asked.get());
    asked_ = std::move(asked);
    source_ = std::move(source);
  }

  std::vector<std::string> running() const {
    std::vector<std::string> names;
    batch_.for_each([&](const Request& request) { names.push_back(request.name); });
    return names;
  }

  // `control`: a Control of control.py.
  void begin(nb::handle name, nb::handle control, std::size_t most, std::int64_t left,
             std::size_t known) {
    const auto wants = [&](const char* source) { return nb::cast<bool>(control.attr(source)); };
    end(name);
    batch_.begin(name_of(name), {most, left, known, wants("suffix"), wants("head"), wants("native"),
                                 nb::cast<std::optional<double>>(control.attr("price")),
                                 nb::cast<double>(control.attr("temperature"))});
  }

  // The source knows it now.
  void join(nb::handle name) {
    Request* request = batch_.find(name_of(name));
    if (request == nullptr) throw nb::key_error("the request has not begun");
    request->in_source = true;
  }

  // Forget a request; whether the source has to be told. Unknown ones are ignored.
  bool end(nb::handle name) {
    Request* request = batch_.find(name_of(name));
    if (request == nullptr) return false;
    clear();
    for (Seat& seat : seats_) {
      if (seat.request == request) seat = {};
    }
    const bool in_source = request->in_source;
    batch_.end(*request);
    return in_source;
  }

  // Begin a step; `load` is what is known of the next one, but its rows. Where requests are unknown
  // that got tokens: nothing happens but that their names are returned.
  nb::object enter(nb::handle requests, nb::handle sampled, const policy::Load& load) {
    const Items names(requests);
    const Items tokens(sampled);
    if (names.size() != tokens.size()) throw nb::value_error("must be as many rows");
    clear();
    nb::object unknown;
    seats_.resize(names.size());
    for (std::size_t at = 0; at < names.size(); ++at) {
      read_tokens(tokens[at], tokens_);
      if (tokens_.empty()) continue;
      if (Request* request = find(at, names[at])) {
        batch_.add(*request, at, tokens_);
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

  // The rest of the step that `enter` began. Each time that somebody has proposed, the price is
  // settled anew.
  nb::object draft(nb::handle native, nb::handle head) {
    batch_.ask();
    double price = batch_.settle();
    if (!native.is_none()) {
      offer_native(native, price);
      price = batch_.settle();
    }
    if (!head.is_none() && offer_head(head, price)) price = batch_.settle();
    return cut(price);
  }

  double price() const { return batch_.price(); }
  bool is_open() const { return batch_.is_open(); }

  std::size_t native_tokens() { return batch_.native_tokens(); }

 private:
  // Who had a place in the last step. vLLM gives the same string again while it runs.
  struct Seat {
    nb::object name;
    Request* request = nullptr;
  };

  void offer_native(nb::handle drafts, double price) {
    const Items all(drafts);
    for (Row& row : batch_.rows()) {
      read_tokens(all[row.at], tokens_);
      batch_.offer_native(row, tokens_, price);
    }
  }

  // Run the head, if it is worth its pass; whether it ran.
  bool offer_head(nb::handle head, double price) {
    asked_rows_ = batch_.head_rows(price);
    if (asked_rows_.empty()) return false;
    nb::list places;
    for (const Row* row : asked_rows_) places.append(row->at);
    const nb::object guesses = head(places);
    const Items all(guesses);
    if (all.size() != asked_rows_.size()) throw nb::value_error("must be a guess for each row");
    for (std::size_t at = 0; at < all.size(); ++at) {
      const Items guess(all[at]);
      read_tokens(guess[0], tokens_);
      read_chances(guess[1], confidence_);
      batch_.offer_head(*asked_rows_[at], tokens_, confidence_, price);
    }
    return true;
  }

  // For each row of the step its draft and whose it is, the verdict, whether it has changed what
  // the batch by and large does, and the tokens in the caches.
  nb::object cut(double price) {
    const auto places = static_cast<Py_ssize_t>(seats_.size());
    nb::object tokens = nb::steal(PyList_New(places));
    nb::object origins = nb::steal(PyList_New(places));
    for (Py_ssize_t at = 0; at < places; ++at) {
      PyList_SET_ITEM(origins.ptr(), at, nb::none().release().ptr());
    }
    const Verdict verdict = batch_.cut(price, [&](const Row& row, std::size_t length) {
      const auto at = static_cast<Py_ssize_t>(row.at);
      PyList_SET_ITEM(tokens.ptr(), at,
                      list_of(batch_.drafts().tokens(row.best).first(length)).release().ptr());
      nb::object origin = origin_of(row.best.origin.cut(length));
      PyList_SetItem(origins.ptr(), at, origin.release().ptr());
    });
    for (Py_ssize_t at = 0; at < places; ++at) {
      if (PyList_GET_ITEM(tokens.ptr(), at) == nullptr) {
        PyList_SET_ITEM(tokens.ptr(), at, PyList_New(0));
      }
    }
    return nb::make_tuple(tokens, origins, verdicts_[verdict], batch_.has_turned(),
                          batch_.context_tokens());
  }

  // The step's rows point to requests that may end.
  void clear() {
    batch_.clear();
    asked_rows_.clear();
  }

  Request* find(std::size_t at, nb::handle name) {
    Seat& seat = seats_[at];
    if (seat.request == nullptr || !seat.name.is(name)) {
      seat = {nb::borrow(name), batch_.find(name_of(name))};
    }
    return seat.request;
  }

  static nb::object list_of(std::span<const Token> tokens) {
    nb::object list = nb::steal(PyList_New(static_cast<Py_ssize_t>(tokens.size())));
    Py_ssize_t at = 0;
    for (const Token token : tokens) PyList_SET_ITEM(list.ptr(), at++, PyLong_FromLong(token));
    return list;
  }

  nb::object origin_of(const Origin& origin) const {
    if (origin.second == kNobody) return origins_[origin.first];
    return make_origin_(static_cast<int>(origin.first), static_cast<int>(origin.second),
                        origin.first_length);
  }

  nb::object gate_;
  Batch batch_;
  nb::object make_origin_;
  std::vector<nb::object> origins_;  // by source, of drafts that are all of one
  std::vector<nb::object> verdicts_;  // their names
  nb::object source_;
  std::unique_ptr<RowSource> asked_;
  std::vector<Seat> seats_;
  std::vector<Row*> asked_rows_;
  std::vector<Token> tokens_;
  std::vector<double> confidence_;
};

}  // namespace

void bind_drafting(nb::module_& module) {
  nb::class_<PyBatch>(module, "Batch")
      .def(nb::init<nb::object, nb::object, const policy::ForwardDrafter&,
                    const policy::ForwardDrafter&, nb::object>(),
           "gate"_a, "source"_a.none(), nb::kw_only(), "native"_a, "head"_a, "origin"_a)
      .def_prop_rw("source", &PyBatch::source, &PyBatch::set_source, nb::arg().none())
      .def_prop_ro("running", &PyBatch::running)
      .def("begin", &PyBatch::begin, "request"_a, "control"_a, nb::kw_only(), "most"_a, "left"_a,
           "known"_a)
      .def("join", &PyBatch::join, "request"_a)
      .def("end", &PyBatch::end, "request"_a)
      .def("enter", &PyBatch::enter, "requests"_a, "sampled"_a, "load"_a)
      .def("draft", &PyBatch::draft, "native"_a.none(), "head"_a.none())
      .def_prop_ro("price", &PyBatch::price)
      .def_prop_ro("is_open", &PyBatch::is_open)
      .def("native_tokens", &PyBatch::native_tokens);
}

}  // namespace specgate::drafting
