// The values that the CPU processes in one instruction.

#pragma once

namespace tfhet {

#if defined(__AVX512BW__)
constexpr int VECTOR_BYTES = 64;
#elif defined(__AVX2__)
constexpr int VECTOR_BYTES = 32;
#else
constexpr int VECTOR_BYTES = 16;
#endif

// At any address, aligned or not.
template <class T>
struct Vector {
  static constexpr int LANES = VECTOR_BYTES / sizeof(T);
  typedef T Values __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(T)), may_alias));
};

}  // namespace tfhet
