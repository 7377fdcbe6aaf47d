// Operations on the colours of a pixel: linear mixes of red, green and blue, a turn of the hue, saturation, grey.
// Blocks of pixels are split into one plane for each colour, so that the compiler can work on whole vectors.

#pragma once

#include <algorithm>
#include <cmath>

#include "failure.h"

namespace tfhet::colour {

inline constexpr int BLOCK = 64;

template <class T>
inline constexpr float FULL = sizeof(T) == 1 ? 255.0f : 1.0f;

// Comparisons so that NaN becomes the low end.
inline float between(float value, float low, float high) {
  value = value > low ? value : low;
  return value < high ? value : high;
}

// Within the full range; for bytes the nearest level.
template <class T>
inline T restored(float value);
template <>
inline float restored<float>(float value) {
  return between(value, 0.0f, 1.0f);
}
template <>
inline uint8_t restored<uint8_t>(float value) {
  return static_cast<uint8_t>(static_cast<int32_t>(between(value + 0.5f, 0.0f, 255.0f)));
}

struct Planes {
  float red[BLOCK], green[BLOCK], blue[BLOCK];

  // The compiler makes better code of whole blocks, whose length it knows.
  template <class T>
  void take(const T* __restrict from, int count) {
    if (count == BLOCK) {
      take_some(from, BLOCK);
    } else {
      take_some(from, count);
    }
  }
  template <class T>
  void give(T* __restrict to, int count) const {
    if (count == BLOCK) {
      give_some(to, BLOCK);
    } else {
      give_some(to, count);
    }
  }

 private:
  template <class T>
  inline __attribute__((always_inline)) void take_some(const T* __restrict from, int count) {
    for (int i = 0; i < count; ++i) {
      red[i] = static_cast<float>(from[3 * i]);
      green[i] = static_cast<float>(from[3 * i + 1]);
      blue[i] = static_cast<float>(from[3 * i + 2]);
    }
  }
  template <class T>
  inline __attribute__((always_inline)) void give_some(T* __restrict to, int count) const {
    T bytes[3][BLOCK];
    for (int i = 0; i < count; ++i) bytes[0][i] = restored<T>(red[i]);
    for (int i = 0; i < count; ++i) bytes[1][i] = restored<T>(green[i]);
    for (int i = 0; i < count; ++i) bytes[2][i] = restored<T>(blue[i]);
    for (int i = 0; i < count; ++i) {
      to[3 * i] = bytes[0][i];
      to[3 * i + 1] = bytes[1][i];
      to[3 * i + 2] = bytes[2][i];
    }
  }
};

// All pixels of an image through `change(planes)`, which always works on a whole block.
template <class T, class Change>
void each_block(const T* from, T* to, int64_t pixels, const Change& change) {
  Planes planes{};
  for (int64_t i = 0; i < pixels; i += BLOCK) {
    const int count = static_cast<int>(std::min<int64_t>(BLOCK, pixels - i));
    planes.take(from + 3 * i, count);
    change(planes);
    planes.give(to + 3 * i, count);
  }
}

// matrix: what red, green and blue get of red, then of green, then of blue.
inline void mix(Planes& planes, const float* matrix, const float* offset) {
  for (int i = 0; i < BLOCK; ++i) {
    const float red = planes.red[i], green = planes.green[i], blue = planes.blue[i];
    planes.red[i] = matrix[0] * red + matrix[3] * green + matrix[6] * blue + offset[0];
    planes.green[i] = matrix[1] * red + matrix[4] * green + matrix[7] * blue + offset[1];
    planes.blue[i] = matrix[2] * red + matrix[5] * green + matrix[8] * blue + offset[2];
  }
}

inline void clip(Planes& planes, float full) {
  for (float* plane : {planes.red, planes.green, planes.blue})
    for (int i = 0; i < BLOCK; ++i) plane[i] = between(plane[i], 0.0f, full);
}

inline float most_of(float a, float b) { return a > b ? a : b; }
inline float least_of(float a, float b) { return a < b ? a : b; }

// sixths: how far the hue is turned, in sixths of a turn, from 0 to below 6.
inline void turn(Planes& planes, float sixths) {
  for (int i = 0; i < BLOCK; ++i) {
    const float red = planes.red[i], green = planes.green[i], blue = planes.blue[i];
    const float most = most_of(most_of(red, green), blue), least = least_of(least_of(red, green), blue);
    const float spread = most - least;
    const float over = 1.0f / most_of(spread, 1e-9f);
    // Red is at 0, green at 2, blue at 4. Nothing is calculated under a condition, so that the loop is vectorised.
    const float of_red = (green - blue) * over, of_green = (blue - red) * over + 2.0f;
    const float of_blue = (red - green) * over + 4.0f;
    float hue = (red >= most ? of_red : (green >= most ? of_green : of_blue)) + sixths;
    hue += hue < 0.0f ? 6.0f : 0.0f;
    hue -= hue >= 6.0f ? 6.0f : 0.0f;
    planes.red[i] = least + spread * between(std::fabs(hue - 3.0f) - 1.0f, 0.0f, 1.0f);
    planes.green[i] = least + spread * between(2.0f - std::fabs(hue - 2.0f), 0.0f, 1.0f);
    planes.blue[i] = least + spread * between(2.0f - std::fabs(hue - 4.0f), 0.0f, 1.0f);
  }
}

inline void saturate(Planes& planes, float factor) {
  for (int i = 0; i < BLOCK; ++i) {
    const float red = planes.red[i], green = planes.green[i], blue = planes.blue[i];
    const float most = most_of(most_of(red, green), blue), least = least_of(least_of(red, green), blue);
    // At most to where the smallest value is 0.
    const float grown = least_of(factor, most / most_of(most - least, 1e-9f));
    planes.red[i] = most - (most - red) * grown;
    planes.green[i] = most - (most - green) * grown;
    planes.blue[i] = most - (most - blue) * grown;
  }
}

// matrix: as above, with the offset of each colour; nullptr: no mix. turns: how far the hue is turned; nullptr: not.
template <class T>
void mix(const T* from, T* to, int64_t pixels, const float* matrix, const float* offset, const float* turns) {
  const float sixths = turns ? 6.0f * (*turns - std::floor(*turns)) : 0.0f;
  if (matrix && turns) {
    each_block(from, to, pixels, [&](Planes& planes) {
      mix(planes, matrix, offset);
      clip(planes, FULL<T>);
      turn(planes, sixths);
    });
  } else if (matrix) {
    each_block(from, to, pixels, [&](Planes& planes) { mix(planes, matrix, offset); });
  } else if (turns) {
    each_block(from, to, pixels, [&](Planes& planes) { turn(planes, sixths); });
  } else {
    each_block(from, to, pixels, [](Planes&) {});
  }
}

template <class T>
void saturate(const T* from, T* to, int64_t pixels, float factor) {
  each_block(from, to, pixels, [&](Planes& planes) { saturate(planes, factor); });
}

// ITU-R 601-2 as Pillow has it, in 65536ths.
inline constexpr int32_t RED = 19595, GREEN = 38470, BLUE = 7471;

inline uint8_t grey_of(uint8_t red, uint8_t green, uint8_t blue) {
  return static_cast<uint8_t>((RED * red + GREEN * green + BLUE * blue + 32768) >> 16);
}
inline float grey_of(float red, float green, float blue) {
  return red * (RED / 65536.0f) + green * (GREEN / 65536.0f) + blue * (BLUE / 65536.0f);
}

// channels: of the result, 1 or 3.
template <class T>
void grey(const T* __restrict from, T* __restrict to, int64_t pixels, int64_t channels) {
  if (channels == 1) {
    for (int64_t i = 0; i < pixels; ++i) to[i] = grey_of(from[3 * i], from[3 * i + 1], from[3 * i + 2]);
  } else {
    for (int64_t i = 0; i < pixels; ++i)
      to[3 * i] = to[3 * i + 1] = to[3 * i + 2] = grey_of(from[3 * i], from[3 * i + 1], from[3 * i + 2]);
  }
}

}  // namespace tfhet::colour
