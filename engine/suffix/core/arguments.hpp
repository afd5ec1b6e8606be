// Checks and converts arguments that Python callers pass. A wrong argument throws BadInput.
//
// nanobind's own conversions raise TypeError instead, and some of them silently convert a float, a
// bool or an int64 array.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "errors.hpp"
#include "text.hpp"

namespace specgate::suffix {

namespace nb = nanobind;

// Returns a view of the name. It is valid for as long as the Python string lives.
inline std::string_view name_of(nb::handle value) {
  Py_ssize_t bytes = 0;
  const char* text = nullptr;
  if (PyUnicode_Check(value.ptr())) text = PyUnicode_AsUTF8AndSize(value.ptr(), &bytes);
  if (text == nullptr) {
    PyErr_Clear();
    throw BadInput("a name must be a string of valid Unicode");
  }
  return {text, static_cast<std::size_t>(bytes)};
}

// Returns an integer from 0 to `most`. Accepts int and NumPy integer scalars, but not bool.
inline std::uint64_t count_of(nb::handle value, const char* what, std::uint64_t most) {
  if (PyLong_CheckExact(value.ptr())) {  // the common case, and twice as fast
    int overflow = 0;
    const long long number = PyLong_AsLongLongAndOverflow(value.ptr(), &overflow);
    if (overflow == 0 && number >= 0 && static_cast<std::uint64_t>(number) <= most) {
      return static_cast<std::uint64_t>(number);
    }
  }
  if (!PyIndex_Check(value.ptr()) || PyBool_Check(value.ptr())) {
    throw BadInput(std::string(what) + ": must be an integer");
  }
  const nb::object whole = nb::steal(PyNumber_Index(value.ptr()));
  if (!whole.is_valid()) throw nb::python_error();
  const std::uint64_t count = PyLong_AsUnsignedLongLong(whole.ptr());
  if (PyErr_Occurred() != nullptr || count > most) {
    PyErr_Clear();
    throw BadInput(std::string(what) + ": must be from 0 to " + std::to_string(most));
  }
  return count;
}

// Returns a token id. Any other integer is no token: kGap, which an index never drafts.
inline Token token_of(nb::handle value, const char* what) {
  nb::object whole = nb::borrow(value);
  if (!PyLong_CheckExact(value.ptr())) {
    if (!PyIndex_Check(value.ptr()) || PyBool_Check(value.ptr())) {
      throw BadInput(std::string(what) + ": must be integers");
    }
    whole = nb::steal(PyNumber_Index(value.ptr()));
    if (!whole.is_valid()) throw nb::python_error();
  }
  int overflow = 0;
  const long long number = PyLong_AsLongLongAndOverflow(whole.ptr(), &overflow);
  const bool is_token = overflow == 0 && number >= 0 && number <= std::numeric_limits<Token>::max();
  return is_token ? static_cast<Token>(number) : kGap;
}

// Returns NaN if the value is not a number.
inline double number_of(nb::handle value) {
  const double number = PyBool_Check(value.ptr()) ? NAN : PyFloat_AsDouble(value.ptr());
  const bool is_number = PyErr_Occurred() == nullptr;
  PyErr_Clear();
  return is_number ? number : NAN;
}

inline float probability_of(nb::handle value, const char* what) {
  const double number = number_of(value);
  if (!(number >= 0.0 && number <= 1.0)) {
    throw BadInput(std::string(what) + ": must be a number from 0 to 1");
  }
  return static_cast<float>(number);
}

inline float amount_of(nb::handle value, const char* what) {
  const double number = number_of(value);
  if (!(number >= 0.0)) throw BadInput(std::string(what) + ": must be a number of at least 0");
  return static_cast<float>(number);
}

inline bool bool_of(nb::handle value, const char* what) {
  if (!PyBool_Check(value.ptr())) throw BadInput(std::string(what) + ": must be true or false");
  return value.ptr() == Py_True;
}

// Token ids. A contiguous int32 array is read in place; a strided array, a list or another sequence
// is copied. The constructor needs the GIL, `span` does not.
class TokenIds {
 public:
  TokenIds(nb::handle value, const char* what) : what_(what) {
    const bool is_list = PyList_CheckExact(value.ptr()) || PyTuple_CheckExact(value.ptr());
    if (!is_list && nb::try_cast(value, array_)) {
      view_array();
    } else {
      copy_sequence(value);
    }
  }
  TokenIds(const TokenIds&) = delete;
  TokenIds& operator=(const TokenIds&) = delete;

  std::span<const Token> span() const { return span_; }

 private:
  [[noreturn]] void fail(const char* why) const { throw BadInput(std::string(what_) + ": " + why); }

  void view_array() {
    if (array_.dtype() != nb::dtype<Token>()) fail("an array must be of int32");
    if (array_.ndim() != 1) fail("an array must have one dimension");
    const auto* data = static_cast<const Token*>(array_.data());
    const std::size_t size = array_.shape(0);
    if (size < 2 || array_.stride(0) == 1) {
      span_ = {data, size};
      return;
    }
    copy_.reserve(size);
    for (std::size_t i = 0; i < size; ++i) {
      copy_.push_back(data[static_cast<std::int64_t>(i) * array_.stride(0)]);
    }
    span_ = copy_;
  }

  void copy_sequence(nb::handle value) {
    if (!PySequence_Check(value.ptr())) fail("must be an int32 array or a list");
    const nb::object items = nb::steal(PySequence_Fast(value.ptr(), "tokens: cannot be read"));
    if (!items.is_valid()) throw nb::python_error();
    const auto size = static_cast<std::size_t>(PySequence_Fast_GET_SIZE(items.ptr()));
    if (size <= few_.size() && copy_few(items, size)) return;
    copy_.reserve(size);
    // An item's `__index__` may change the list, so the size is read again on every iteration.
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.ptr()); ++i) {
      const nb::object item = nb::borrow(PySequence_Fast_GET_ITEM(items.ptr(), i));
      copy_.push_back(token_of(item, what_));
    }
    span_ = copy_;
  }

  // Copies a short sequence without an allocation. Returns false if an item is not a plain int,
  // because its `__index__` could change the list.
  bool copy_few(nb::handle items, std::size_t size) {
    for (std::size_t i = 0; i < size; ++i) {
      PyObject* item = PySequence_Fast_GET_ITEM(items.ptr(), static_cast<Py_ssize_t>(i));
      if (!PyLong_CheckExact(item)) return false;
      few_[i] = token_of(item, what_);
    }
    span_ = {few_.data(), size};
    return true;
  }

  const char* what_;
  std::array<Token, 32> few_;
  nb::ndarray<nb::ro, nb::device::cpu> array_;
  std::vector<Token> copy_;
  std::span<const Token> span_;
};

}  // namespace specgate::suffix
