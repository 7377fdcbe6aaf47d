// SplitMix64, the hash of all random numbers: see tfhet/stages/randomness.py.

#pragma once

#include <cstdint>

namespace tfhet {

constexpr uint64_t GAMMA = 0x9E3779B97F4A7C15;

// The output function, Stafford's variant 13.
inline uint64_t mix(uint64_t word) {
  word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9;
  word = (word ^ (word >> 27)) * 0x94D049BB133111EB;
  return word ^ (word >> 31);
}

inline uint64_t absorb(uint64_t state, uint64_t word) { return mix(state + (word + 1) * GAMMA); }

}  // namespace tfhet
