// Functions of codecs.h for ctypes.

#include <cstdlib>
#include <cstring>

#include "codecs.h"
#include "failure.h"

extern "C" {

// Returns 0 and values that `codecs_free` frees, or the code of an error and its text.
int codecs_decode(const char* data, size_t bytes, int64_t channels, int upright, int accurate, int64_t index,
                  int64_t* size, uint8_t** values, char* text, size_t text_bytes) {
  try {
    const auto pixels = tfhet::codecs::decode({data, bytes}, channels, upright != 0, accurate != 0, index);
    size[0] = pixels.height;
    size[1] = pixels.width;
    size[2] = static_cast<int64_t>(pixels.values.size());
    *values = static_cast<uint8_t*>(std::malloc(pixels.values.size()));
    if (!*values) return static_cast<int>(tfhet::Code::resource_exhausted);
    std::memcpy(*values, pixels.values.data(), pixels.values.size());
    return 0;
  } catch (const tfhet::Failure& failure) {
    std::strncpy(text, failure.message.c_str(), text_bytes - 1);
    text[text_bytes - 1] = 0;
    return static_cast<int>(failure.code);
  }
}

void codecs_free(uint8_t* values) { std::free(values); }

void codecs_size(const char* data, size_t bytes, int64_t* size) {
  const auto found = tfhet::codecs::size_of({data, bytes});
  size[0] = found.height;
  size[1] = found.width;
}

int codecs_orientation(const char* data, size_t bytes) { return tfhet::codecs::orientation_of({data, bytes}); }

}  // extern "C"
