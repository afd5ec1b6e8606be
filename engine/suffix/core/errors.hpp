// What a caller can do wrong; each becomes the Python error of the same name.
#pragma once

#include <stdexcept>

namespace specgate::suffix {

// A value that no call accepts: a negative token, a draft over the limit, an empty name.
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

// Running requests use all of the memory.
struct OutOfRoom : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The file is no snapshot of ours, of another version, or damaged.
struct BadSnapshot : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace specgate::suffix
