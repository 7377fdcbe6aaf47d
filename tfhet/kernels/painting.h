// A rectangle of one value in an image.

#pragma once

#include <algorithm>
#include <cmath>

#include "failure.h"

namespace tfhet::painting {

// The first whole number from `edge` on, from 0 to `length`; 0 for NaN.
inline int64_t first_from(float edge, int64_t length) {
  return edge > 0.0f ? std::min(length, static_cast<int64_t>(std::min(std::ceil(edge), 1e9f))) : 0;
}

// The value as what images hold. Throws if a level is not from 0 to 255.
template <class T>
T value_of(float value) {
  if (sizeof(T) == 1 && !(value >= 0.0f && value <= 255.0f)) invalid("value is from 0 to 255");
  return static_cast<T>(value);
}

// box: top, bottom, left, right, in pixels.
template <class T>
void paint(const T* from, T* to, int64_t height, int64_t width, int64_t channels, const float* box, float number) {
  const T value = value_of<T>(number);
  std::memcpy(to, from, height * width * channels * sizeof(T));
  const int64_t bottom = first_from(box[1], height), left = first_from(box[2], width);
  const int64_t right = first_from(box[3], width);
  if (right <= left) return;
  for (int64_t y = first_from(box[0], height); y < bottom; ++y)
    std::fill(to + (y * width + left) * channels, to + (y * width + right) * channels, value);
}

}  // namespace tfhet::painting
