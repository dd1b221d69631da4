// Errors. Two kinds, never mixed:
//   throw Error   what a user, a file or the machine can cause (bad flag, corrupt checkpoint, out of memory)
//   ASSERT        what only a bug in this program can cause (base/assert.h)
//
// A message is one sentence: where, what is, what was wanted, what to do. Context is added once, where it is
// known.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace nanovllm {

enum class ErrorKind {
  kConfig,       // an option or a file of the model folder asks for something impossible
  kCheckpoint,   // weights that are missing, damaged or of another shape
  kRequest,      // one request is wrong; all others go on
  kOutOfMemory,  // the machine has less memory than was asked for
  kDevice,       // the machine or the operating system failed
  kUnsupported,  // right, but not implemented here
};

class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

// Throws Error with the parts written one after the other: fail(ErrorKind::kConfig, path, ": no head_dim").
template <class... Parts>
[[noreturn]] void fail(ErrorKind kind, const Parts&... parts) {
  std::ostringstream message;
  (message << ... << parts);
  throw Error(kind, message.str());
}

// One line on stderr for what is odd but has one safe reading ("config.json: no rope_theta, taking ...").
void warn(const std::string& message);

}  // namespace nanovllm
