// Python bindings of the suffix index, as engine._core.suffix. Long calls release the GIL.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <new>
#include <optional>
#include <string_view>
#include <system_error>
#include <vector>

#include "arguments.hpp"
#include "errors.hpp"
#include "index.hpp"
#include "prior.hpp"

namespace specgate::suffix {
namespace {

// A draft that owns its arrays, as returned to Python.
struct OwnedContinuation {
  std::vector<Token> tokens;
  std::vector<float> survival;
  std::vector<float> share;
  int predicted;
};

// A request for which the system has no memory is refused as one for which the index has none.
template <class Call>
void no_room_without_memory(Call call) {
  try {
    call();
  } catch (const std::bad_alloc&) {
    throw OutOfRoom("the system has no memory for the request");
  }
}

void start(Index& index, nb::handle request, nb::handle tenant, nb::handle prompt,
           nb::handle temperature) {
  const auto request_name = name_of(request);
  const auto tenant_name = name_of(tenant);
  const TokenIds tokens(prompt, "prompt_tokens");
  const float warmth = amount_of(temperature, "temperature");
  const nb::gil_scoped_release released;
  no_room_without_memory([&] {
    index.start(request_name, tenant_name, tokens.span(), warmth);
  });
}

void extend(Index& index, nb::handle request, nb::handle generated) {
  const TokenIds tokens(generated, "tokens");
  index.extend(name_of(request), tokens.span());
}

void predict(Index& index, nb::handle request, nb::handle prediction) {
  const auto name = name_of(request);
  const TokenIds tokens(prediction, "tokens");
  const nb::gil_scoped_release released;
  no_room_without_memory([&] { index.predict(name, tokens.span()); });
}

float survival_of(nb::handle min_survival) { return probability_of(min_survival, "min_survival"); }

// Returns what `fill` drafts, at most `max_tokens`.
template <class Fill>
OwnedContinuation owned(nb::handle max_tokens, Fill fill) {
  const std::size_t most = count_of(max_tokens, "max_tokens", kLongestDraft);
  Token tokens[kLongestDraft];
  float survival[kLongestDraft];
  float share[kLongestDraft];
  Continuation draft{{tokens, most}, {survival, most}, {share, most}};
  fill(draft);
  return {{tokens, tokens + draft.length},
          {survival, survival + draft.length},
          {share, share + draft.length},
          draft.predicted};
}

OwnedContinuation propose(Index& index, nb::handle request, nb::handle max_tokens,
                   nb::handle min_survival) {
  return owned(max_tokens, [&](Continuation& draft) {
    index.propose(name_of(request), survival_of(min_survival), draft);
  });
}

OwnedContinuation propose_after(Index& index, nb::handle request, nb::handle proposed,
                         nb::handle survival, nb::handle max_tokens, nb::handle min_survival) {
  const TokenIds tokens(proposed, "tokens");
  return owned(max_tokens, [&](Continuation& draft) {
    index.propose_after(name_of(request), tokens.span(), probability_of(survival, "survival"),
                        survival_of(min_survival), draft);
  });
}

// Maps each C++ error to an exception of engine.errors.
void translate(const std::exception_ptr& error, void* /* payload */) {
  const auto raise = [](const char* name, const char* message) {
    PyErr_SetString(nb::module_::import_("engine.errors").attr(name).ptr(), message);
  };
  try {
    std::rethrow_exception(error);
  } catch (const BadInput& bad) {
    raise("SuffixInputError", bad.what());
  } catch (const UnknownRequest& unknown) {
    raise("UnknownRequestError", unknown.what());
  } catch (const DuplicateRequest& duplicate) {
    raise("DuplicateRequestError", duplicate.what());
  } catch (const OutOfRoom& out) {
    raise("SuffixCapacityError", out.what());
  } catch (const BadSnapshot& bad) {
    raise("SnapshotError", bad.what());
  } catch (const std::system_error& failed) {
    errno = failed.code().value();
    PyErr_SetFromErrno(PyExc_OSError);
  }
}

template <class Numbers>
std::vector<float> list_of(const Numbers& numbers) {
  return {numbers.begin(), numbers.end()};
}

// Returns a prior as a dictionary; its reliability is a list for each kind of match.
nb::dict as_dict(const Prior& prior) {
  nb::list reliability;
  for (const auto& lengths : prior.reliability) reliability.append(list_of(lengths));
  nb::dict parts;
  parts["outcomes"] = prior.outcomes;
  parts["reliability"] = reliability;
  parts["dense"] = list_of(prior.dense);
  parts["dense_squares"] = list_of(prior.dense_squares);
  parts["weights"] = list_of(prior.weights);
  parts["squares"] = list_of(prior.squares);
  return parts;
}

template <class Number, std::size_t size>
void read(nb::handle values, std::array<Number, size>& into) {
  if (!nb::isinstance<nb::list>(values) || nb::len(values) != size) {
    throw BadInput("prior: a list has the wrong length");
  }
  for (std::size_t i = 0; i < size; ++i) {
    if constexpr (std::is_same_v<Number, float>) {
      into[i] = static_cast<float>(number_of(values[i]));  // NaN is refused later
    } else {
      read(values[i], into[i]);
    }
  }
}

void teach(Index& index, nb::handle tenant, const nb::dict& parts) {
  Prior prior{};
  prior.outcomes = static_cast<float>(number_of(parts["outcomes"]));
  read(parts["reliability"], prior.reliability);
  read(parts["dense"], prior.dense);
  read(parts["dense_squares"], prior.dense_squares);
  read(parts["weights"], prior.weights);
  read(parts["squares"], prior.squares);
  index.teach(name_of(tenant), prior);
}

// Returns what a tenant's model has learnt, in the form of the prior; None for an unknown tenant.
nb::object calibration(Index& index, nb::handle tenant) {
  const auto model = index.model_of(name_of(tenant));
  return model ? nb::object(as_dict(model->learnt())) : nb::none();
}

// An argument that we check ourselves. Without this nanobind rejects None with a TypeError.
auto any() { return nb::arg().none(); }

std::string path_of(const nb::bytes& path) { return {path.c_str(), path.size()}; }

}  // namespace

void bind(nb::module_& module) {
  nb::register_exception_translator(translate, nullptr);

  nb::class_<OwnedContinuation>(module, "Continuation")
      .def("__len__", [](const OwnedContinuation& draft) { return draft.tokens.size(); })
      .def_prop_ro("tokens", [](const OwnedContinuation& draft) { return draft.tokens; })
      .def_prop_ro("survival", [](const OwnedContinuation& draft) { return draft.survival; })
      .def_prop_ro("share", [](const OwnedContinuation& draft) { return draft.share; })
      .def_ro("predicted", &OwnedContinuation::predicted);

  nb::class_<Stats>(module, "Stats")
      .def_ro("tokens", &Stats::tokens)
      .def_ro("bytes", &Stats::bytes)
      .def_ro("capacity_bytes", &Stats::capacity_bytes)
      .def_ro("tenants", &Stats::tenants)
      .def_ro("requests", &Stats::requests)
      .def_ro("evicted_tokens", &Stats::evicted_tokens);

  nb::class_<Loaded>(module, "Loaded").def(nb::init<>());

  nb::class_<Index>(module, "Index")
      .def("__init__",
           [](Index* index, nb::handle capacity_bytes, nb::handle vocabulary, nb::handle salt) {
             constexpr auto most = std::numeric_limits<std::uint64_t>::max();
             new (index) Index(count_of(capacity_bytes, "capacity_bytes", most),
                               count_of(vocabulary, "vocabulary", most),
                               count_of(salt, "salt", most));
           }, any(), any(), any())
      .def("start", &start, any(), any(), any(), any())
      .def("extend", &extend, any(), any())
      .def("predict", &predict, any(), any())
      .def("propose", &propose, any(), any(), any())
      .def("propose_after", &propose_after, any(), any(), any(), any(), any())
      .def("finish",
           [](Index& index, nb::handle request, nb::handle keep) {
             index.finish(name_of(request), bool_of(keep, "keep"));
           }, any(), any())
      .def("save",
           [](Index& index, const nb::bytes& path, nb::handle identity) {
             const std::string name = path_of(path);
             const auto whose = name_of(identity);
             const nb::gil_scoped_release released;
             index.save(name, whose);
           }, nb::arg(), any())
      .def("load",
           [](Index& index, const nb::bytes& path, nb::handle identity, Loaded& loaded) {
             const std::string name = path_of(path);
             const auto whose = name_of(identity);
             const nb::gil_scoped_release released;
             index.load(name, whose, loaded);
           }, nb::arg(), any(), nb::arg())
      .def("clear", &Index::clear)
      .def("stats", &Index::stats)
      .def("calibration", &calibration)
      .def("teach", &teach);
  module.def("prior", [] { return as_dict(kPrior); });
  module.attr("LONGEST_DRAFT") = kLongestDraft;
}

}  // namespace specgate::suffix
