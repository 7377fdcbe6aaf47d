// Grey-scale dilation and erosion by a flat square: the maximum or minimum of size x size pixels around each pixel.
// Pixels beyond the edge never count. Separable: the columns first, then the rows.

#pragma once

#include <algorithm>

#include "failure.h"
#include "vector.h"

namespace tfhet::morphology {

template <bool Largest>
struct Pick {
  template <class T>
  static T of(T a, T b) {
    return Largest ? (a > b ? a : b) : (a < b ? a : b);
  }
};

// to[x] = the pick of all lines' [x].
template <int Count, class Pick, class T>
void pick(const T* const* lines, int64_t count, int64_t length, T* __restrict to) {
  using Values = typename Vector<T>::Values;
  constexpr int64_t LANES = Vector<T>::LANES;
  if (Count > 0) count = Count;
  if (length < LANES) {
    for (int64_t x = 0; x < length; ++x) {
      T value = lines[0][x];
      for (int64_t k = 1; k < count; ++k) value = Pick::of(value, lines[k][x]);
      to[x] = value;
    }
    return;
  }
  for (int64_t next = 0; next < length; next += LANES) {
    const int64_t x = std::min(next, length - LANES);  // the last one may write some values again
    Values best = *reinterpret_cast<const Values*>(lines[0] + x);
    for (int64_t k = 1; k < count; ++k) best = Pick::of(best, *reinterpret_cast<const Values*>(lines[k] + x));
    *reinterpret_cast<Values*>(to + x) = best;
  }
}

// What lies outside never counts, as if the edge went on: the edge is among what counts already.
template <int Count, class Pick, class T>
void image(const T* from, T* to, int64_t height, int64_t width, int64_t channels, int64_t size) {
  // An even square reaches further down and right, as "SAME" padding has it.
  const int64_t line = width * channels;
  const int64_t above = std::min((size - 1) / 2, height - 1), below = std::min(size / 2, height - 1);
  const int64_t before = std::min((size - 1) / 2, width - 1), after = std::min(size / 2, width - 1);
  const int64_t left = before * channels, right = after * channels, pitch = left + line + right;
  // All columns first, of some lines: what was just written is read slowly by loads that are not the stores' own.
  const int64_t group = std::min(height, std::max<int64_t>(4, (1 << 14) / pitch));
  T* columns = scratch<T>(group * pitch) + left;
  const T** lines = scratch<const T*, 1>(std::max(above + below, before + after) + 1);
  for (int64_t top = 0; top < height; top += group) {
    const int64_t count = std::min(group, height - top);
    for (int64_t i = 0; i < count; ++i) {
      for (int64_t k = -above; k <= below; ++k)
        lines[above + k] = from + std::min(std::max<int64_t>(top + i + k, 0), height - 1) * line;
      T* column = columns + i * pitch;
      pick<Count, Pick>(lines, above + 1 + below, line, column);
      for (int64_t x = 0; x < left; x += channels) std::copy_n(column, channels, column - left + x);
      for (int64_t x = 0; x < right; x += channels) std::copy_n(column + line - channels, channels, column + line + x);
    }
    for (int64_t i = 0; i < count; ++i) {
      for (int64_t k = -before; k <= after; ++k) lines[before + k] = columns + i * pitch + k * channels;
      pick<Count, Pick>(lines, before + 1 + after, line, to + (top + i) * line);
    }
  }
}

template <class Pick, class T>
void dispatched(const T* from, T* to, int64_t height, int64_t width, int64_t channels, int64_t size) {
  if (size == 3 && height > 1 && width > 1)
    image<3, Pick>(from, to, height, width, channels, size);
  else
    image<0, Pick>(from, to, height, width, channels, size);
}

// size: of the square, at least 1. largest: dilation, else erosion.
template <class T>
void morphology(const T* from, T* to, int64_t height, int64_t width, int64_t channels, int64_t size, bool largest) {
  if (height * width * channels == 0) return;
  if (largest)
    dispatched<Pick<true>>(from, to, height, width, channels, size);
  else
    dispatched<Pick<false>>(from, to, height, width, channels, size);
}

}  // namespace tfhet::morphology
