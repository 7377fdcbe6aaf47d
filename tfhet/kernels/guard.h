// What all functions of the C interface use: no exception passes it.

#pragma once

#include <cstdio>
#include <exception>
#include <new>

#include "abi.h"
#include "failure.h"

#define TFHET_EXPORT extern "C" __attribute__((visibility("default")))

namespace tfhet {

inline int32_t fail(tfhet_status* status, Code code, const char* text, int64_t item = -1, int64_t offset = -1) {
  if (status) {
    status->code = static_cast<int32_t>(code);
    status->item = item;
    status->offset = offset;
    std::snprintf(status->text, sizeof(status->text), "%s", text);
  }
  return static_cast<int32_t>(code);
}

// Runs work() and returns the code of its error, or 0.
template <class Work>
int32_t guarded(tfhet_status* status, const Work& work) {
  try {
    work();
    if (status) status->code = 0;
    return 0;
  } catch (const Failure& failure) {
    return fail(status, failure.code, failure.message.c_str(), failure.item, failure.offset);
  } catch (const std::bad_alloc&) {
    return fail(status, Code::resource_exhausted, "no memory for the batch");
  } catch (const std::exception& error) {
    return fail(status, Code::internal, error.what());
  } catch (...) {
    return fail(status, Code::internal, "unknown error");
  }
}

}  // namespace tfhet
