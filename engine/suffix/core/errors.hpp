// Errors of the index. module.cpp maps each to a Python exception of engine.errors.
#pragma once

#include <exception>
#include <stdexcept>

namespace specgate::suffix {

// An invalid argument: no tokens, a draft over the limit, an empty name.
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

// Running requests use all of the index's memory, or the system has none. Needs no memory itself.
class OutOfRoom : public std::exception {
 public:
  explicit OutOfRoom(const char* why) : why_(why) {}  // a literal
  const char* what() const noexcept override { return why_; }

 private:
  const char* why_;
};

// The file is not a snapshot, has another version, is of another model, or is damaged.
struct BadSnapshot : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace specgate::suffix
