// What all kernels use: errors, types of values, and scratch memory. No header of a framework is included here or in any
// other file of this folder.

#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace tfhet {

// The codes of TensorFlow and gRPC, so that an adapter passes them on unchanged.
enum class Code {
  invalid_argument = 3,
  not_found = 5,
  permission_denied = 7,
  resource_exhausted = 8,
  internal = 13,
  data_loss = 15,
};

// An error that the user can mend. It reaches Python as the exception of its code.
struct Failure {
  Code code;
  std::string message;
  int64_t item = -1;    // place in the batch of what is wrong, if it is known
  int64_t offset = -1;  // byte in its file
};

[[noreturn]] inline void invalid(std::string message) { throw Failure{Code::invalid_argument, std::move(message)}; }

// Memory of this thread that is kept from call to call, so that no image pays for fresh pages. `Slot` tells two users
// in one kernel apart.
template <class T, int Slot = 0>
T* scratch(size_t count) {
  thread_local std::vector<T> memory;
  if (memory.size() < count) memory.resize(count);
  return memory.data();
}

}  // namespace tfhet
