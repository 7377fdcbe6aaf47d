// gain * x**gamma of values from 0 to 1, at most 1.

#pragma once

#include <algorithm>
#include <limits>

#include "failure.h"
#include "logarithm.h"

namespace tfhet::power {

// e**x for x from -87 to 88; polynomial of Cephes' expf (Moshier).
inline float exp_of(float x) {
  const int32_t twos = static_cast<int32_t>(x * 1.44269504088896341f + (x < 0.0f ? -0.5f : 0.5f));
  const float whole = static_cast<float>(twos);
  const float rest = x - whole * 0.693359375f - whole * -2.12194440e-4f;
  float y = 1.9875691500E-4f;
  y = y * rest + 1.3981999507E-3f;
  y = y * rest + 8.3334519073E-3f;
  y = y * rest + 4.1665795894E-2f;
  y = y * rest + 1.6666665459E-1f;
  y = y * rest + 5.0000001201E-1f;
  y = y * rest * rest + rest + 1.0f;
  const uint32_t bits = static_cast<uint32_t>(twos + 127) << 23;
  float scale;
  std::memcpy(&scale, &bits, 4);
  return y * scale;
}

inline constexpr int BLOCK = 256;

// Many short loops: in one, the compiler would take the limits for branches and make no vectors of it.
inline void block(const float* __restrict from, float* __restrict to, int count, float gamma, float gain) {
  constexpr float LEAST = std::numeric_limits<float>::min();
  float values[BLOCK];
  for (int i = 0; i < count; ++i) values[i] = from[i] > LEAST ? from[i] : LEAST;
  for (int i = 0; i < count; ++i) values[i] = gamma * log_of(values[i]);
  for (int i = 0; i < count; ++i) values[i] = values[i] > -87.0f ? values[i] : -87.0f;
  for (int i = 0; i < count; ++i) values[i] = values[i] < 88.0f ? values[i] : 88.0f;
  for (int i = 0; i < count; ++i) values[i] = gain * exp_of(values[i]);
  for (int i = 0; i < count; ++i) values[i] = values[i] < 1.0f ? values[i] : 1.0f;
  for (int i = 0; i < count; ++i) to[i] = from[i] > 0.0f ? values[i] : 0.0f;
}

inline void power(const float* from, float* to, int64_t count, float gamma, float gain) {
  for (int64_t first = 0; first < count; first += BLOCK)
    block(from + first, to + first, static_cast<int>(std::min<int64_t>(BLOCK, count - first)), gamma, gain);
}

}  // namespace tfhet::power
