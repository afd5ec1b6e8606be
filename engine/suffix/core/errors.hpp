// Errors of the index. module.cpp maps each to a Python exception of engine.errors.
#pragma once

#include <stdexcept>

namespace specgate::suffix {

// An invalid argument: a negative token, a draft over the limit, an empty name.
struct BadInput : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

// The request was never started, or has ended.
struct UnknownRequest : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

// A request of that name is running.
struct DuplicateRequest : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

// Running requests use all of the index's memory.
struct OutOfRoom : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The file is not a snapshot, has another version, or is damaged.
struct BadSnapshot : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace specgate::suffix
