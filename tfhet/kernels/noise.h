// Adds normal noise: the numbers that `normals` of tfhet/stages/tone.py computes with plain operations from the same
// bits.

#pragma once

#include <algorithm>
#include <cmath>

#include "failure.h"
#include "logarithm.h"
#include "splitmix.h"

namespace tfhet::noise {

inline constexpr int WORDS = 64, HALVES = 2 * WORDS;

// Of a positive number, by Newton's steps towards 1 / root; std::sqrt, which may set errno, is not vectorised.
inline float root_of(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  bits = 0x5F375A86 - (bits >> 1);
  float over;
  std::memcpy(&over, &bits, 4);
  const float half = 0.5f * value;
  over = over * (1.5f - half * over * over);
  over = over * (1.5f - half * over * over);
  over = over * (1.5f - half * over * over);
  return value * over;
}

// Box-Muller on one 32-bit half: 16 bits for the radius, 16 for the angle, of which each is a wave of its own.
inline void normals(const uint32_t* __restrict halves, float* __restrict cosines, float* __restrict sines,
                    float deviation) {
  for (int i = 0; i < HALVES; ++i) {
    const int32_t lower = static_cast<int32_t>(halves[i] & 0xFFFF), upper = static_cast<int32_t>(halves[i]) >> 16;
    const float radius = root_of(-2.0f * log_of((static_cast<float>(lower) + 0.5f) * 0x1p-16f)) * deviation;
    // The nearest quarter turn and what is left, at most an eighth either way; polynomials of Cephes' sinf and cosf.
    const int32_t quarter = (upper + 8192) >> 14;
    const float x = static_cast<float>(upper - quarter * 16384) * (6.283185307179586f * 0x1p-16f), z = x * x;
    const float sine = ((-1.9515295891E-4f * z + 8.3321608736E-3f) * z - 1.6666654611E-1f) * z * x + x;
    const float cosine =
        ((2.443315711809948E-5f * z - 1.388731625493765E-3f) * z + 4.166664568298827E-2f) * z * z - 0.5f * z + 1.0f;
    const float along = quarter & 1 ? -sine : cosine, across = quarter & 1 ? cosine : sine;
    cosines[i] = (quarter & 2 ? -along : along) * radius;
    sines[i] = (quarter & 2 ? -across : across) * radius;
  }
}

inline float between(float value, float low, float high) {
  value = value > low ? value : low;
  return value < high ? value : high;
}

inline void add(const float* __restrict from, float* __restrict to, const float* __restrict noise, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = between(from[i] + noise[i], 0.0f, 1.0f);
}
inline void add(const uint8_t* __restrict from, uint8_t* __restrict to, const float* __restrict noise, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    to[i] = static_cast<uint8_t>(
        static_cast<int32_t>(between(static_cast<float>(from[i]) + noise[i] + 0.5f, 0.0f, 255.0f)));
}

// deviation: of the noise, in units of the values.
template <class T>
void add_noise(const T* from, T* to, int64_t count, uint64_t seed, float deviation) {
  const int64_t words = (count + 3) / 4, second = 2 * words;
  uint64_t bits[WORDS];
  uint32_t halves[HALVES];
  float cosines[HALVES], sines[HALVES];
  for (int64_t word = 0; word < words; word += WORDS) {
    for (int i = 0; i < WORDS; ++i) bits[i] = absorb(seed, static_cast<uint64_t>(word + i));
    // The lower half of a word first, whatever the order of its bytes.
    for (int i = 0; i < WORDS; ++i) {
      halves[2 * i] = static_cast<uint32_t>(bits[i]);
      halves[2 * i + 1] = static_cast<uint32_t>(bits[i] >> 32);
    }
    normals(halves, cosines, sines, deviation);
    // All cosines come before all sines.
    const int64_t at = 2 * word, ready = std::min<int64_t>(HALVES, second - at);
    const int64_t lower = std::min(ready, count - at), upper = std::min(ready, count - second - at);
    add(from + at, to + at, cosines, lower);
    if (upper > 0) add(from + second + at, to + second + at, sines, upper);
  }
}

}  // namespace tfhet::noise
