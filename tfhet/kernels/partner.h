// An image with another one: blended, or with a rectangle of it pasted in. Both are as fast as memory is.

#pragma once

#include <algorithm>

#include "failure.h"

namespace tfhet::partner {

inline float finished(float value, float) { return value; }
// The nearest level: cut off after adding a half, as the plain operations do. Between two levels, so within 0..255.
inline uint8_t finished(float value, uint8_t) { return static_cast<uint8_t>(static_cast<int32_t>(value + 0.5f)); }

template <class T>
void blended(const T* __restrict own, const T* __restrict other, float share, int64_t count, T* __restrict to) {
  for (int64_t i = 0; i < count; ++i) {
    const float value = static_cast<float>(own[i]);
    to[i] = finished(value + share * (static_cast<float>(other[i]) - value), T());
  }
}

// Moves an image towards another one by `share`, which is limited to 0..1; NaN counts as 0.
template <class T>
void blend(const T* own, const T* other, float share, int64_t count, T* to) {
  share = share > 0.0f ? share : 0.0f;
  blended(own, other, share < 1.0f ? share : 1.0f, count, to);
}

// rectangle: top, bottom, left, right, the second and the last just outside; the part beyond the image is ignored.
template <class T>
void paste(const T* own, const T* other, int64_t height, int64_t width, int64_t channels, const int32_t* rectangle,
           T* to) {
  const int64_t top = std::clamp<int64_t>(rectangle[0], 0, height);
  const int64_t bottom = std::clamp<int64_t>(rectangle[1], top, height);
  const int64_t left = std::clamp<int64_t>(rectangle[2], 0, width) * channels;
  const int64_t right = std::clamp<int64_t>(rectangle[3], left / channels, width) * channels;
  const int64_t line = width * channels;
  std::copy_n(own, top * line, to);
  for (int64_t y = top; y < bottom; ++y) {
    const int64_t at = y * line;
    std::copy_n(own + at, left, to + at);
    std::copy_n(other + at + left, right - left, to + at + left);
    std::copy_n(own + at + right, line - right, to + at + right);
  }
  std::copy_n(own + bottom * line, (height - bottom) * line, to + bottom * line);
}

}  // namespace tfhet::partner
