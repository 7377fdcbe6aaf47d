// Memory that the C interface gives to its caller.

#pragma once

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "abi.h"
#include "failure.h"

namespace tfhet {

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};
using Piece = std::unique_ptr<uint8_t, Free>;

// Memory that is not written before it is read into; never null.
inline Piece piece(uint64_t size) {
  Piece made(size > SIZE_MAX / 2 ? nullptr : static_cast<uint8_t*>(std::malloc(std::max<uint64_t>(size, 1))));
  if (!made) throw Failure{Code::resource_exhausted, "no memory for " + std::to_string(size) + " bytes of a file"};
  return made;
}

}  // namespace tfhet

struct tfhet_memory {
  std::vector<tfhet::Piece> pieces;
  std::vector<int64_t> offsets;
  std::string reason;
};
