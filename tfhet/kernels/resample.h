// Bilinear resampling of a window of an image, along both axes at once, row by row: what a decoder has not yet given is
// not asked for, and nothing larger than a few rows is kept.
//
// Each value of the result is a mean of pixels, weighted by a triangle around the centre of its own pixel. The triangle
// is one pixel wide on either side (linear interpolation), or as wide as a pixel of the result where `antialias` is set
// and that is wider.

#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "failure.h"

namespace tfhet {

// The part of an image that is brought to the result's size, in its pixels; may be fractional.
struct Window {
  double top, left, height, width;

  Window divided(double by) const { return {top / by, left / by, height / by, width / by}; }

  // Throws if the window is empty or is not inside an image of rows x columns.
  static Window of(const float* numbers, int64_t index, int64_t rows, int64_t columns) {
    const Window window{numbers[0], numbers[1], numbers[2], numbers[3]};
    const double slack = 1e-2;  // pixels: float32 numbers of a large image add up to that
    if (!(window.top >= -slack && window.left >= -slack && window.height > 0 && window.width > 0 &&
          window.top + window.height <= rows + slack && window.left + window.width <= columns + slack)) {
      std::string text = "windows[" + std::to_string(index) + "] is (";
      for (int i = 0; i < 4; ++i) text += (i ? ", " : "") + std::to_string(numbers[i]);
      invalid(text + "), which does not lie in an image of " + std::to_string(rows) + " x " + std::to_string(columns) +
              " pixels");
    }
    return window;
  }
};

// How the values of a result are made of those of an image, along one axis. Points into scratch memory of this thread.
struct Axis {
  int32_t* first;  // of each place of the result: the first pixel that counts
  int32_t* count;  // and how many do
  float* weights;  // [size, taps]
  int64_t size;    // places of the result
  int64_t taps;    // the most pixels that any of them takes
  int64_t begin;   // the first pixel that any of them takes
  int64_t end;     // one behind the last
};

struct Sampling {
  bool antialias;
  bool confined;  // nothing outside of the window counts; else what lies there does, up to the image's edge
};

template <int Slot>
Axis axis(double begin, double length, int64_t size, int64_t limit, Sampling sampling, bool reverse) {
  const double step = length / size, support = sampling.antialias ? std::max(1.0, step) : 1.0;
  int64_t low = 0, high = limit;
  if (sampling.confined) {
    low = std::clamp<int64_t>(static_cast<int64_t>(std::floor(begin + 1e-4)), 0, limit - 1);
    high = std::clamp<int64_t>(static_cast<int64_t>(std::ceil(begin + length - 1e-4)), low + 1, limit);
  }
  Axis result;
  result.size = size;
  result.taps = std::min<int64_t>(high - low, 2 * static_cast<int64_t>(std::ceil(support)) + 1);
  if (!sampling.antialias) result.taps = 2;
  result.first = scratch<int32_t, 10 * Slot + 1>(size);
  result.count = scratch<int32_t, 10 * Slot + 2>(size);
  result.weights = scratch<float, 10 * Slot + 3>(size * result.taps);
  result.begin = limit;
  result.end = 0;
  for (int64_t place = 0; place < size; ++place) {
    double centre = begin + (place + 0.5) * step - 0.5;
    const int64_t to = reverse ? size - 1 - place : place;
    float* weights = result.weights + to * result.taps;
    int64_t first, count;
    if (sampling.antialias) {
      centre = std::clamp<double>(centre, low - 0.5, high - 0.5);
      first = std::max(low, static_cast<int64_t>(std::ceil(centre - support)));
      const int64_t last = std::min(high - 1, static_cast<int64_t>(std::floor(centre + support)));
      count = std::min(last - first + 1, result.taps);
      double sum = 0.0;
      for (int64_t i = 0; i < count; ++i) sum += 1.0 - std::abs(first + i - centre) / support;
      for (int64_t i = 0; i < count; ++i)
        weights[i] = static_cast<float>((1.0 - std::abs(first + i - centre) / support) / sum);
    } else {
      centre = std::clamp<double>(centre, low, high - 1);
      first = static_cast<int64_t>(centre);
      weights[1] = static_cast<float>(centre - first);
      weights[0] = 1.0f - weights[1];
      count = weights[1] > 0.0f ? 2 : 1;
    }
    result.first[to] = static_cast<int32_t>(first);
    result.count[to] = static_cast<int32_t>(count);
    result.begin = std::min(result.begin, first);
    result.end = std::max(result.end, first + count);
  }
  return result;
}

typedef float Four __attribute__((vector_size(16)));

inline Four four(const float* from) {
  Four value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

// One row of the result before rounding, from the weighted sum of rows; both have room for four values more.
// Three values a pixel travel as four: the fourth is the next pixel's first, and is overwritten by it.
template <int Channels>
void along_row(const float* __restrict row, const Axis& x, int64_t channels, bool linear, float* __restrict to) {
  const int64_t step = Channels ? Channels : channels;
  if (linear) {
    for (int64_t i = 0; i < x.size; ++i) {
      const float *from = row + (x.first[i] - x.begin) * step, a = x.weights[2 * i], b = x.weights[2 * i + 1];
      if constexpr (Channels == 3) {
        const Four sum = four(from) * a + four(from + 3) * b;
        std::memcpy(to + 3 * i, &sum, sizeof(sum));
      } else {
        for (int64_t c = 0; c < step; ++c) to[i * step + c] = from[c] * a + from[c + step] * b;
      }
    }
    return;
  }
  for (int64_t i = 0; i < x.size; ++i) {
    const float *from = row + (x.first[i] - x.begin) * step, *weights = x.weights + i * x.taps;
    if constexpr (Channels == 3) {
      Four sum = four(from) * weights[0];
      for (int64_t k = 1; k < x.count[i]; ++k) sum += four(from + 3 * k) * weights[k];
      std::memcpy(to + 3 * i, &sum, sizeof(sum));
    } else {
      for (int64_t c = 0; c < step; ++c) {
        float sum = from[c] * weights[0];
        for (int64_t k = 1; k < x.count[i]; ++k) sum += from[k * step + c] * weights[k];
        to[i * step + c] = sum;
      }
    }
  }
}

template <class T>
void one_row(const T* __restrict a, float wa, float* __restrict to, int64_t size) {
  for (int64_t i = 0; i < size; ++i) to[i] = static_cast<float>(a[i]) * wa;
}

template <class T>
void two_rows(const T* __restrict a, float wa, const T* __restrict b, float wb, float* __restrict to, int64_t size) {
  for (int64_t i = 0; i < size; ++i) to[i] = static_cast<float>(a[i]) * wa + static_cast<float>(b[i]) * wb;
}

template <class T>
void two_more_rows(const T* __restrict a, float wa, const T* __restrict b, float wb, float* __restrict to,
                   int64_t size) {
  for (int64_t i = 0; i < size; ++i) to[i] += static_cast<float>(a[i]) * wa + static_cast<float>(b[i]) * wb;
}

inline void rounded(const float* __restrict from, float* __restrict to, int64_t size) {
  std::memcpy(to, from, size * sizeof(float));
}

// To the nearest, ties to even: 1.5 * 2**23 leaves no room for a fraction, and the level in the lowest byte.
inline void rounded(const float* __restrict from, uint8_t* __restrict to, int64_t size) {
  for (int64_t i = 0; i < size; ++i) {
    const float shifted = from[i] + 12582912.0f;
    int32_t bits;
    std::memcpy(&bits, &shifted, sizeof(bits));
    to[i] = static_cast<uint8_t>(bits);
  }
}

// `rows(y)` gives row y of the image from pixel x.begin on; it is asked for rows in rising order, and for the same one
// again only within the last y.taps. To: [y.size, x.size, channels].
template <int Channels, class T, class Rows>
void resample(Rows& rows, const Axis& y, const Axis& x, int64_t channels, bool linear, T* to) {
  const int64_t step = Channels ? Channels : channels;
  const int64_t pixels = x.end - x.begin, size = pixels * step, line = x.size * step;
  float* row = scratch<float, 4>(size + step + 4);
  float* result = scratch<float, 5>(line + 4);
  for (int64_t i = 0; i < y.size; ++i) {
    const float* weights = y.weights + i * y.taps;
    const int64_t first = y.first[i], count = y.count[i];
    const T* one = rows(first);
    if (count == 1) {
      one_row(one, weights[0], row, size);
    } else {
      two_rows(one, weights[0], rows(first + 1), weights[1], row, size);
      int64_t k = 2;
      for (; k + 1 < count; k += 2) {
        one = rows(first + k);
        two_more_rows(one, weights[k], rows(first + k + 1), weights[k + 1], row, size);
      }
      if (k < count) {
        one = rows(first + k);
        two_more_rows(one, weights[k], one, 0.0f, row, size);
      }
    }
    // The neighbour of the last pixel, whose weight is nothing, is one.
    for (int64_t c = 0; c < step; ++c) row[size + c] = row[size - step + c];
    along_row<Channels>(row, x, channels, linear, result);
    rounded(result, to + i * line, line);
  }
}

}  // namespace tfhet
