// The Python module engine.suffix._core: arguments checked and converted, the lock released.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <system_error>
#include <vector>

#include "errors.hpp"
#include "index.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace specgate::suffix {
namespace {

using Tokens = nb::ndarray<const Token, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using Rows = nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <class T>
using Column = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

std::span<const Token> span_of(const Tokens& tokens) { return {tokens.data(), tokens.size()}; }

// A draft that owns its arrays: what `propose` returns.
struct OwnedDraft {
  std::vector<Token> tokens;
  std::vector<float> survival;
  std::vector<float> share;
};

OwnedDraft propose(Index& index, std::string_view request, int max_tokens, float min_survival) {
  if (max_tokens < 0) throw BadInput("max_tokens: must not be negative");
  if (max_tokens > kLongestDraft) throw BadInput("max_tokens: over the limit of 256");
  Token tokens[kLongestDraft];
  float survival[kLongestDraft];
  float share[kLongestDraft];
  const auto most = static_cast<std::size_t>(max_tokens);
  Draft draft{{tokens, most}, {survival, most}, {share, most}};
  index.propose(request, min_survival, draft);
  return {{tokens, tokens + draft.length},
          {survival, survival + draft.length},
          {share, share + draft.length}};
}

void propose_many(Index& index, const nb::list& requests, const Column<const Token>& max_tokens,
                  float min_survival, const Rows<Token>& tokens, const Rows<float>& survival,
                  const Column<Token>& lengths) {
  const std::size_t rows = requests.size();
  const std::size_t width = tokens.shape(1);
  if (max_tokens.size() != rows || lengths.size() != rows || tokens.shape(0) != rows ||
      survival.shape(0) != rows || survival.shape(1) != width) {
    throw BadInput("the arrays must have a row for each request, and equal widths");
  }
  if (width > kLongestDraft) throw BadInput("max_tokens: over the limit of 256");
  std::vector<std::string_view> names;
  names.reserve(rows);
  for (const nb::handle name : requests) {
    Py_ssize_t bytes = 0;
    const char* text = PyUnicode_AsUTF8AndSize(name.ptr(), &bytes);
    if (text == nullptr) {
      PyErr_Clear();
      throw BadInput("requests: each must be a string");
    }
    names.emplace_back(text, static_cast<std::size_t>(bytes));
  }
  std::vector<float> share(rows * width);
  std::vector<Draft> drafts(rows);
  for (std::size_t row = 0; row < rows; ++row) {
    const Token most = max_tokens.data()[row];
    if (most < 0 || static_cast<std::size_t>(most) > width) {
      throw BadInput("max_tokens: must be from 0 to the width of the arrays");
    }
    const auto count = static_cast<std::size_t>(most);
    drafts[row] = {{tokens.data() + row * width, count},
                   {survival.data() + row * width, count},
                   {share.data() + row * width, count}};
  }
  {
    const nb::gil_scoped_release released;
    index.propose_many(names, min_survival, drafts);
  }
  for (std::size_t row = 0; row < rows; ++row) lengths.data()[row] = drafts[row].length;
}

// Each C++ error becomes the class of that name in engine.errors.
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

nb::object reliability_prior(const Model& model) {
  nb::list origins;
  for (int origin = 0; origin < kOrigins; ++origin) {
    nb::list lengths;
    for (int length = 0; length <= kLongestMatch; ++length) {
      lengths.append(1.0f / (1.0f + std::exp(-model.reliability.log_odds(
                                        static_cast<Origin>(origin), length))));
    }
    origins.append(lengths);
  }
  return origins;
}

}  // namespace

NB_MODULE(_core, module) {
  nb::register_exception_translator(translate, nullptr);

  nb::class_<OwnedDraft>(module, "Draft")
      .def("__len__", [](const OwnedDraft& draft) { return draft.tokens.size(); })
      .def_prop_ro("tokens", [](const OwnedDraft& draft) { return draft.tokens; })
      .def_prop_ro("survival", [](const OwnedDraft& draft) { return draft.survival; })
      .def_prop_ro("share", [](const OwnedDraft& draft) { return draft.share; });

  nb::class_<Stats>(module, "Stats")
      .def_ro("tokens", &Stats::tokens)
      .def_ro("bytes", &Stats::bytes)
      .def_ro("capacity_bytes", &Stats::capacity_bytes)
      .def_ro("tenants", &Stats::tenants)
      .def_ro("requests", &Stats::requests)
      .def_ro("evicted_tokens", &Stats::evicted_tokens);

  nb::class_<Index>(module, "Index")
      .def(nb::init<std::size_t, std::uint64_t>(), "capacity_bytes"_a, "salt"_a)
      .def("start",
           [](Index& index, std::string_view request, std::string_view tenant,
              const Tokens& prompt) {
             const auto tokens = span_of(prompt);
             const nb::gil_scoped_release released;
             index.start(request, tenant, tokens);
           })
      .def("extend", [](Index& index, std::string_view request,
                        const Tokens& tokens) { index.extend(request, span_of(tokens)); })
      .def("extend", [](Index& index, std::string_view request,
                        const std::vector<Token>& tokens) { index.extend(request, tokens); })
      .def("predict",
           [](Index& index, std::string_view request, const Tokens& prediction) {
             const auto tokens = span_of(prediction);
             const nb::gil_scoped_release released;
             index.predict(request, tokens);
           })
      .def("propose", &propose)
      .def("propose_many", &propose_many)
      .def("observe", &Index::observe)
      .def("finish", &Index::finish)
      .def("save", &Index::save, nb::call_guard<nb::gil_scoped_release>())
      .def("load", &Index::load, nb::call_guard<nb::gil_scoped_release>())
      .def("clear", &Index::clear)
      .def("stats", &Index::stats)
      .def("calibration", [](Index& index, std::string_view tenant) -> nb::object {
        const auto model = index.model_of(tenant);
        if (!model) return nb::none();
        nb::dict parts;
        parts["reliability"] = reliability_prior(*model);
        parts["dense"] = std::vector<float>(model->survival.dense().begin(),
                                            model->survival.dense().end());
        parts["dense_squares"] = std::vector<float>(model->survival.dense_squares().begin(),
                                                    model->survival.dense_squares().end());
        parts["weights"] = std::vector<float>(model->survival.structured().begin(),
                                              model->survival.structured().end());
        parts["squares"] = std::vector<float>(model->survival.structured_squares().begin(),
                                              model->survival.structured_squares().end());
        return parts;
      });
  module.attr("LONGEST_DRAFT") = kLongestDraft;
}

}  // namespace specgate::suffix
