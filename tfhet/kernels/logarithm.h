// The logarithm as plain arithmetic, which a compiler makes vectors of.

#pragma once

#include <cstdint>
#include <cstring>

namespace tfhet {

// Natural, of a positive normal number; polynomial of Cephes' logf (Moshier).
inline float log_of(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  int32_t exponent = static_cast<int32_t>(bits >> 23) - 126;
  bits = (bits & 0x7FFFFF) | 0x3F000000;
  float part;
  std::memcpy(&part, &bits, 4);
  const bool small = part < 0.707106781186547524f;
  exponent -= small ? 1 : 0;
  // Nothing is calculated under a condition: that would keep the loop from being vectorised.
  const float x = part - 1.0f + (small ? part : 0.0f), z = x * x, e = static_cast<float>(exponent);
  float y = 7.0376836292E-2f;
  y = y * x - 1.1514610310E-1f;
  y = y * x + 1.1676998740E-1f;
  y = y * x - 1.2420140846E-1f;
  y = y * x + 1.4249322787E-1f;
  y = y * x - 1.6668057665E-1f;
  y = y * x + 2.0000714765E-1f;
  y = y * x - 2.4999993993E-1f;
  y = y * x + 3.3333331174E-1f;
  y = y * x * z + e * -2.12194440e-4f - 0.5f * z;
  return x + y + e * 0.693359375f;
}

}  // namespace tfhet
