// Samples an image at the points of a projective transform: TensorFlow's ImageProjectiveTransformV3 with its
// order of operations, so that float32 results are the same bit for bit, and uint8 results are those, rounded.
//
// A row of the result is made in strips of LANES pixels, each in three steps: where to read and with which weights (in
// vectors), reading (one pixel after the other, as no vector can), and blending (in vectors). Only strips that reach
// beyond the image pay for its edges. What merely mirrors or shifts by whole pixels is copied.

#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "failure.h"

namespace tfhet::sampling {

enum class Fill { constant, nearest, reflect, wrap };

inline constexpr int LANES = 32;
inline constexpr float FARTHEST = 1 << 22;      // beyond it float32 has no halves of a pixel
inline constexpr float ROUNDING = 12582912.0f;  // 1.5 * 2**23: the lowest bits of x + ROUNDING are round(x)

struct Frame {
  int64_t height, width;  // of an image
  int64_t rows, columns;  // of its result
  int64_t channels;
  Fill fill;
  float fill_value;
  bool nearest;

  int64_t line() const { return width * channels; }
  // How far the lower and the right neighbour are, in values.
  int64_t down() const { return height > 1 ? line() : 0; }
  int64_t right() const { return width > 1 ? channels : 0; }
};

// Where a strip reads: two neighbours along each axis, with a weight for each; for fills, what is to be added.
struct alignas(64) Strip {
  float x[LANES], y[LANES];
  int32_t offset[LANES];  // of the upper left one, in values
  float left[LANES], right[LANES], upper[LANES], lower[LANES];
  float beside[LANES], above[LANES];  // the fill's part of a row, and of a column
  int32_t at_infinity[LANES];
  bool filled, has_infinity;
};

// For functions that process a strip. If they are inlined, the compiler finds fewer vectors: the nearest neighbour took
// 1.5 times as long.
#define TFHET_STRIP inline __attribute__((noinline))

// NaN becomes the low end.
inline float within(float value, float low, float high) {
  value = value > low ? value : low;
  return value < high ? value : high;
}

// Coordinates beyond the edge to those inside that show the same pixel, as the reference has it.
TFHET_STRIP void inside(Fill fill, float* __restrict at, int64_t size) {
  const float length = static_cast<float>(size), last = length - 1.0f, twice = 2.0f * length;
  if (fill == Fill::nearest || size <= 1) {
    for (int i = 0; i < LANES; ++i) at[i] = within(at[i], 0.0f, last);
  } else if (fill == Fill::reflect) {
    int far = 0;
    for (int i = 0; i < LANES; ++i) far |= !(at[i] >= -length) | !(at[i] < twice);
    if (far) {
      for (int i = 0; i < LANES; ++i) {
        const float value = within(at[i], -FARTHEST, FARTHEST);
        const float turns = static_cast<float>(static_cast<int32_t>(value / twice)) * twice;
        at[i] = value - turns;
      }
    }
    for (int i = 0; i < LANES; ++i) {
      const float value = at[i];
      const float low = value < -length ? value + twice : -value - 1.0f;
      const float high = value >= length ? twice - value - 1.0f : value;
      at[i] = within(value < 0.0f ? low : high, 0.0f, last);
    }
  } else {
    for (int i = 0; i < LANES; ++i) {
      const float value = within(at[i], -FARTHEST, FARTHEST);
      const int32_t turns = static_cast<int32_t>(value / last);  // towards 0
      const float low = value - length * static_cast<float>(turns - 1);
      const float high = value - length * static_cast<float>(turns);
      const float back = value > last ? high : value;
      at[i] = within(value < 0.0f ? low : back, 0.0f, last);
    }
  }
}

// The first of two neighbours of each coordinate, from 0 to size - 1, and the weights of both.
inline void neighbours(const float* __restrict at, int64_t size, int32_t* __restrict first, float* __restrict weight,
                       float* __restrict next_weight) {
  const int32_t before_last = static_cast<int32_t>(std::max<int64_t>(size - 2, 0));
  for (int i = 0; i < LANES; ++i) {
    const int32_t floor = std::min(static_cast<int32_t>(at[i]), before_last);
    const float whole = static_cast<float>(floor);
    first[i] = floor;
    weight[i] = (whole + 1.0f) - at[i];
    next_weight[i] = at[i] - whole;
  }
}

// The same where a neighbour may lie outside. `first` is of a pair inside, whose weights may be 0; `filled` is what the
// fill value adds, and `all` what it adds where both lie outside.
TFHET_STRIP void filled_neighbours(const float* __restrict at, int64_t length, const float* __restrict fill,
                                   int32_t* __restrict first, float* __restrict weight,
                                   float* __restrict next_weight, float* __restrict filled, float* __restrict all) {
  const int32_t size = static_cast<int32_t>(length), before_last = std::max(size - 2, 0);
  for (int i = 0; i < LANES; ++i) {
    const float value = within(at[i], -2.0f, static_cast<float>(size) + 1.0f);
    int32_t floor = static_cast<int32_t>(value);
    floor -= static_cast<float>(floor) > value;
    const float whole = static_cast<float>(floor);
    const float near = (whole + 1.0f) - value, far = value - whole;
    const float near_fill = near * fill[i], far_fill = far * fill[i];
    const bool near_there = (floor >= 0) & (floor < size), far_there = (floor >= -1) & (floor < size - 1);
    const int32_t slot = std::min(std::max(floor, 0), before_last);
    const float kept_near = near_there ? near : 0.0f, kept_far = far_there ? far : 0.0f;
    // Of a pair that was moved by one, only the other one lies inside.
    const float moved_down = floor == slot - 1 ? kept_far : 0.0f, moved_up = floor == slot + 1 ? kept_near : 0.0f;
    first[i] = slot;
    weight[i] = floor == slot ? kept_near : moved_down;
    next_weight[i] = floor == slot ? kept_far : moved_up;
    filled[i] = (near_there ? 0.0f : near_fill) + (far_there ? 0.0f : far_fill);
    all[i] = near_fill + far_fill;
  }
}

inline bool is_inside(float value, int64_t length) {
  return value >= 0.0f && value <= static_cast<float>(length - 1);
}

// The coordinates of `count` pixels of a row, from `column` on; further lanes repeat the last one.
TFHET_STRIP void locate(const float* __restrict t, int64_t row, int64_t column, int count, Strip& __restrict strip) {
  const float y = static_cast<float>(row);
  const float x_row = t[1] * y, y_row = t[4] * y, k_row = t[7] * y;
  alignas(64) float at[LANES];
  for (int i = 0; i < LANES; ++i) at[i] = static_cast<float>(static_cast<int32_t>(column) + std::min(i, count - 1));
  for (int i = 0; i < LANES; ++i) strip.x[i] = (t[0] * at[i] + x_row) + t[2];
  for (int i = 0; i < LANES; ++i) strip.y[i] = (t[3] * at[i] + y_row) + t[5];
  strip.has_infinity = false;
  if (t[6] == 0.0f && t[7] == 0.0f) return;
  int32_t any = 0;
  for (int i = 0; i < LANES; ++i) {
    const float k = (t[6] * at[i] + k_row) + 1.0f;
    strip.at_infinity[i] = k == 0.0f;
    any |= strip.at_infinity[i];
    strip.x[i] /= k;
    strip.y[i] /= k;
  }
  strip.has_infinity = any != 0;
}

TFHET_STRIP void weigh(const Frame& frame, bool within_columns, bool within_rows, Strip& __restrict strip) {
  alignas(64) int32_t column[LANES], row[LANES];
  strip.filled = frame.fill == Fill::constant && !(within_columns && within_rows);
  if (strip.filled) {
    alignas(64) float fill[LANES], all[LANES], unused[LANES];
    for (int i = 0; i < LANES; ++i) fill[i] = frame.fill_value;
    filled_neighbours(strip.x, frame.width, fill, column, strip.left, strip.right, strip.beside, all);
    filled_neighbours(strip.y, frame.height, all, row, strip.upper, strip.lower, strip.above, unused);
  } else {
    if (!within_columns) inside(frame.fill, strip.x, frame.width);
    if (!within_rows) inside(frame.fill, strip.y, frame.height);
    neighbours(strip.x, frame.width, column, strip.left, strip.right);
    neighbours(strip.y, frame.height, row, strip.upper, strip.lower);
  }
  const int32_t line = static_cast<int32_t>(frame.line()), step = static_cast<int32_t>(frame.channels);
  for (int i = 0; i < LANES; ++i) strip.offset[i] = row[i] * line + column[i] * step;
}

template <class Word>
inline Word loaded(const uint8_t* from) {
  Word word;
  std::memcpy(&word, from, sizeof(Word));
  return word;
}

// Words of two neighbouring pixels each, for all lanes up to `count`. At most `room` bytes from `from` on are read.
template <class Word>
inline void read(const uint8_t* __restrict from, int64_t room, const Frame& frame, const Strip& strip, int count,
                 Word* __restrict upper, Word* __restrict lower) {
  const int64_t down = frame.down();
  if (frame.height * frame.line() + static_cast<int64_t>(sizeof(Word)) <= room) {
    for (int i = 0; i < count; ++i) {
      const uint8_t* at = from + strip.offset[i];
      upper[i] = loaded<Word>(at);
      lower[i] = loaded<Word>(at + down);
    }
    return;
  }
  for (int i = 0; i < count; ++i) {  // the batch's last image
    const int64_t above = strip.offset[i], below = above + down;
    if (below + static_cast<int64_t>(sizeof(Word)) <= room) {
      upper[i] = loaded<Word>(from + above);
      lower[i] = loaded<Word>(from + below);
    } else {
      upper[i] = lower[i] = 0;
      std::memcpy(&upper[i], from + above, std::min<int64_t>(sizeof(Word), room - above));
      std::memcpy(&lower[i], from + below, std::min<int64_t>(sizeof(Word), room - below));
    }
  }
}

// One channel of one lane: in the reference's order of operations.
template <bool Filled>
inline float blended(const Strip& s, int i, float upper_left, float upper_right, float lower_left, float lower_right) {
  float upper = s.left[i] * upper_left + s.right[i] * upper_right;
  float lower = s.left[i] * lower_left + s.right[i] * lower_right;
  if (Filled) {
    upper += s.beside[i];
    lower += s.beside[i];
  }
  const float value = s.upper[i] * upper + s.lower[i] * lower;
  return Filled ? value + s.above[i] : value;
}

// To the nearest level, as bits: of halves the even one, as tf.round has it.
inline uint32_t level(float value) {
  const float sum = value + ROUNDING;
  uint32_t bits;
  std::memcpy(&bits, &sum, sizeof(bits));
  return bits & 255;
}

inline float grey(uint32_t word, int byte) {
  return static_cast<float>(static_cast<int32_t>((word >> (8 * byte)) & 255));
}

typedef uint8_t Bytes __attribute__((vector_size(16)));

#if defined(__clang__)
#define TFHET_SHUFFLE(word, ...) __builtin_shufflevector(word, word, __VA_ARGS__)
#else
#define TFHET_SHUFFLE(word, ...) __builtin_shuffle(word, Bytes{__VA_ARGS__})
#endif

// uint8, 3 channels. `is_end`: nothing may be written after the last of the pixels.
template <bool Filled>
void blend_colours(const uint8_t* from, int64_t room, const Frame& frame, const Strip& strip, int count, bool is_end,
                   uint8_t* __restrict to) {
  alignas(64) uint64_t upper[LANES], lower[LANES];
  alignas(64) uint32_t pixels[LANES];
  read(from, room, frame, strip, count, upper, lower);
  for (int i = 0; i < LANES; ++i) {
    const uint32_t a = static_cast<uint32_t>(upper[i]), a_next = static_cast<uint32_t>(upper[i] >> 32);
    const uint32_t b = static_cast<uint32_t>(lower[i]), b_next = static_cast<uint32_t>(lower[i] >> 32);
    const uint32_t red = level(blended<Filled>(strip, i, grey(a, 0), grey(a, 3), grey(b, 0), grey(b, 3)));
    const uint32_t green = level(blended<Filled>(strip, i, grey(a, 1), grey(a_next, 0), grey(b, 1), grey(b_next, 0)));
    const uint32_t blue = level(blended<Filled>(strip, i, grey(a, 2), grey(a_next, 1), grey(b, 2), grey(b_next, 1)));
    pixels[i] = red | green << 8 | blue << 16;
  }
  // Words of four pixels, each over the bytes that the one before left over.
  int done = 0;
  for (; count - done >= 6; done += 4) {
    Bytes word;
    std::memcpy(&word, pixels + done, 16);
    word = TFHET_SHUFFLE(word, 0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, 3, 7, 11, 15);
    std::memcpy(to + 3 * done, &word, 16);
  }
  for (; done < count - 1; ++done) std::memcpy(to + 3 * done, &pixels[done], 4);
  std::memcpy(to + 3 * done, &pixels[done], is_end ? 3 : 4);
}

// uint8, 1 channel.
template <bool Filled>
void blend_greys(const uint8_t* from, int64_t room, const Frame& frame, const Strip& strip, int count,
                 uint8_t* __restrict to) {
  alignas(64) uint16_t upper[LANES], lower[LANES];
  alignas(64) uint8_t pixels[LANES];
  read(from, room, frame, strip, count, upper, lower);
  for (int i = 0; i < LANES; ++i) {
    const uint32_t a = upper[i], b = lower[i];
    pixels[i] = static_cast<uint8_t>(level(blended<Filled>(strip, i, grey(a, 0), grey(a, 1), grey(b, 0), grey(b, 1))));
  }
  std::memcpy(to, pixels, count);
}

inline void store(float value, float* to) { *to = value; }
inline void store(float value, uint8_t* to) { *to = static_cast<uint8_t>(level(value)); }

// Any type, any number of channels.
template <bool Filled, int Channels, class T>
void blend(const T* __restrict from, const Frame& frame, const Strip& strip, int count, T* __restrict to) {
  const int64_t channels = Channels ? Channels : frame.channels, right = frame.right(), down = frame.down();
  for (int i = 0; i < count; ++i) {
    const T* at = from + strip.offset[i];
    for (int64_t c = 0; c < channels; ++c, ++at)
      store(blended<Filled>(strip, i, at[0], at[right], at[down], at[down + right]), to + i * channels + c);
  }
}

template <bool Filled>
void blend(const uint8_t* from, int64_t room, const Frame& frame, const Strip& strip, int count, bool is_end,
           uint8_t* to) {
  if (frame.channels == 3) return blend_colours<Filled>(from, room, frame, strip, count, is_end, to);
  if (frame.channels == 1) return blend_greys<Filled>(from, room, frame, strip, count, to);
  blend<Filled, 0>(from, frame, strip, count, to);
}

typedef float Pixel __attribute__((vector_size(16)));

inline Pixel pixel(const float* from) {
  Pixel value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

// float32, 3 channels: a pixel at a time, with the first value of the next one.
template <bool Filled>
void blend_colours(const float* __restrict from, int64_t room, const Frame& frame, const Strip& strip, int count,
                   bool is_end, float* __restrict to) {
  const int64_t right = frame.right(), down = frame.down();
  for (int i = 0; i < count; ++i) {
    const float* at = from + strip.offset[i];
    if (strip.offset[i] + down + right + 4 > room || (is_end && i == count - 1)) {
      for (int64_t c = 0; c < 3; ++c)
        to[3 * i + c] = blended<Filled>(strip, i, at[c], at[right + c], at[down + c], at[down + right + c]);
      continue;
    }
    Pixel upper = strip.left[i] * pixel(at) + strip.right[i] * pixel(at + right);
    Pixel lower = strip.left[i] * pixel(at + down) + strip.right[i] * pixel(at + down + right);
    if (Filled) {
      upper += strip.beside[i];
      lower += strip.beside[i];
    }
    Pixel value = strip.upper[i] * upper + strip.lower[i] * lower;
    if (Filled) value += strip.above[i];
    std::memcpy(to + 3 * i, &value, sizeof(value));
  }
}

template <bool Filled>
void blend(const float* from, int64_t room, const Frame& frame, const Strip& strip, int count, bool is_end, float* to) {
  if (frame.channels == 3) return blend_colours<Filled>(from, room, frame, strip, count, is_end, to);
  if (frame.channels == 1) return blend<Filled, 1>(from, frame, strip, count, to);
  blend<Filled, 0>(from, frame, strip, count, to);
}

// To the nearest integer, of halves the one further from 0; -1 for what is not from 0 to length - 1.
inline int64_t nearest(float value, int64_t length) {
  const float rounded = std::round(within(value, -2.0f, static_cast<float>(length) + 1.0f));
  const int64_t whole = static_cast<int64_t>(rounded);
  return rounded >= 0.0f && whole < length ? whole : -1;
}

template <class T>
void pick(const T* __restrict from, const Frame& frame, Strip& strip, int count, T fill, T* __restrict to) {
  if (frame.fill != Fill::constant) {
    inside(frame.fill, strip.x, frame.width);
    inside(frame.fill, strip.y, frame.height);
  }
  for (int i = 0; i < count; ++i, to += frame.channels) {
    const int64_t x = nearest(strip.x[i], frame.width), y = nearest(strip.y[i], frame.height);
    if (x < 0 || y < 0)
      std::fill_n(to, frame.channels, fill);
    else
      std::copy_n(from + y * frame.line() + x * frame.channels, frame.channels, to);
  }
}

template <class T>
T as_value(float value) {
  return static_cast<T>(value);
}
template <>
inline uint8_t as_value<uint8_t>(float value) {
  return static_cast<uint8_t>(level(value));
}

// `count` pixels in reverse order; `from` is the last of them.
template <int Channels, class T>
void mirror(const T* from, int64_t channels, int64_t count, T* __restrict to) {
  if (Channels > 0) channels = Channels;
  int64_t done = 0;
  if (sizeof(T) == 1 && Channels == 3) {
    // Five pixels at a time, in a word of 16 bytes whose last one is written over by the next.
    for (; count - done >= 6; done += 5) {
      Bytes word;
      std::memcpy(&word, from - 3 * (done + 4) - 1, 16);
      word = TFHET_SHUFFLE(word, 13, 14, 15, 10, 11, 12, 7, 8, 9, 4, 5, 6, 1, 2, 3, 0);
      std::memcpy(to + 3 * done, &word, 16);
    }
  }
  for (; done < count; ++done)
    for (int64_t c = 0; c < channels; ++c) to[done * channels + c] = from[c - done * channels];
}

// Along one axis: where each of `count` pixels of the result comes from, -1 where it is filled. Those from `first` to
// below `end` come from inside, one after the other.
struct Places {
  int32_t* of;
  int64_t first, end;

  Places(float direction, float start, int64_t count, int64_t length, Fill fill, int32_t* memory) : of(memory) {
    alignas(64) float at[LANES];
    for (int64_t x = 0; x < count; x += LANES) {
      for (int i = 0; i < LANES; ++i) at[i] = direction * static_cast<float>(static_cast<int32_t>(x) + i) + start;
      if (fill != Fill::constant) inside(fill, at, length);
      for (int i = 0; i < LANES; ++i) of[x + i] = is_inside(at[i], length) ? static_cast<int32_t>(at[i]) : -1;
    }
    const int64_t from = static_cast<int64_t>(start);
    first = std::max<int64_t>(0, direction > 0.0f ? -from : from - length + 1);
    end = std::min<int64_t>(count, direction > 0.0f ? length - from : from + 1);
    if (first >= end) first = end = 0;
  }
};

inline bool is_whole(float value) { return std::abs(value) <= FARTHEST && value == std::trunc(value); }

// Whether the transform only mirrors and shifts by whole pixels; then it is done.
template <class T>
bool copied(const T* __restrict from, const Frame& frame, const float* t, T* __restrict to) {
  const bool straight = t[1] == 0.0f && t[3] == 0.0f && t[6] == 0.0f && t[7] == 0.0f;
  if (!straight || std::abs(t[0]) != 1.0f || std::abs(t[4]) != 1.0f || !is_whole(t[2]) || !is_whole(t[5])) return false;
  const int64_t channels = frame.channels, wide = frame.columns * channels;
  const Places columns(t[0], t[2], frame.columns, frame.width, frame.fill,
                       scratch<int32_t, 0>(frame.columns + LANES));
  const Places rows(t[4], t[5], frame.rows, frame.height, frame.fill, scratch<int32_t, 1>(frame.rows + LANES));
  const T fill = as_value<T>(frame.fill_value);
  const auto each = channels == 3 ? &mirror<3, T> : channels == 1 ? &mirror<1, T> : &mirror<0, T>;
  for (int64_t y = 0; y < frame.rows; ++y, to += wide) {
    if (rows.of[y] < 0) {
      std::fill_n(to, wide, fill);
      continue;
    }
    const T* line = from + rows.of[y] * frame.line();
    const int64_t count = columns.end - columns.first;
    if (count > 0 && t[0] > 0.0f)
      std::memcpy(to + columns.first * channels, line + columns.of[columns.first] * channels,
                  count * channels * sizeof(T));
    else if (count > 0)
      each(line + columns.of[columns.first] * channels, channels, count, to + columns.first * channels);
    for (int64_t x = 0; x < frame.columns; ++x) {
      if (x == columns.first) x = columns.end;
      if (x == frame.columns) break;
      if (columns.of[x] < 0)
        std::fill_n(to + x * channels, channels, fill);
      else
        std::copy_n(line + columns.of[x] * channels, channels, to + x * channels);
    }
  }
  return true;
}

// `room`: how many values there are from `from` on, this image's and the following ones'.
template <class T>
void image(const T* from, int64_t room, const Frame& frame, const float* t, T* to) {
  if (copied(from, frame, t, to)) return;
  const bool is_affine = t[6] == 0.0f && t[7] == 0.0f;
  Strip strip;
  for (int64_t row = 0; row < frame.rows; ++row) {
    for (int64_t column = 0; column < frame.columns; column += LANES) {
      const int count = static_cast<int>(std::min<int64_t>(LANES, frame.columns - column));
      T* out = to + (row * frame.columns + column) * frame.channels;
      locate(t, row, column, count, strip);
      if (frame.nearest) {
        pick(from, frame, strip, count, as_value<T>(frame.fill_value), out);
      } else {
        // Without perspective, rounding included, coordinates never turn back along a row: its ends tell.
        const bool within_columns =
            is_affine && is_inside(strip.x[0], frame.width) && is_inside(strip.x[count - 1], frame.width);
        const bool within_rows =
            is_affine && is_inside(strip.y[0], frame.height) && is_inside(strip.y[count - 1], frame.height);
        weigh(frame, within_columns, within_rows, strip);
        const bool is_end = row == frame.rows - 1 && column + count == frame.columns;
        if (strip.filled)
          blend<true>(from, room, frame, strip, count, is_end, out);
        else
          blend<false>(from, room, frame, strip, count, is_end, out);
      }
      if (!strip.has_infinity) continue;
      for (int i = 0; i < count; ++i)
        if (strip.at_infinity[i])
          std::fill_n(out + i * frame.channels, frame.channels, as_value<T>(frame.fill_value));
    }
  }
}

inline Fill fill_of(const std::string& mode) {
  if (mode == "CONSTANT") return Fill::constant;
  if (mode == "NEAREST") return Fill::nearest;
  if (mode == "REFLECT") return Fill::reflect;
  if (mode == "WRAP") return Fill::wrap;
  invalid("fill_mode is CONSTANT, NEAREST, REFLECT or WRAP, not " + mode);
}

// Whether the nearest pixel is used instead of a bilinear mean.
inline bool is_nearest(const std::string& interpolation) {
  if (interpolation != "BILINEAR" && interpolation != "NEAREST")
    invalid("interpolation is BILINEAR or NEAREST, not " + interpolation);
  return interpolation == "NEAREST";
}

// Throws if the sizes of the image or of the result are not supported.
inline void check(const Frame& frame) {
  if (frame.rows < 0 || frame.columns < 0) invalid("size is at least 0");
  if (frame.height * frame.line() > std::numeric_limits<int32_t>::max() ||
      std::max(frame.rows, frame.columns) > 1 << 22)
    invalid("images of more than 2**31 values, or results of more than 2**22 rows or columns");
}

// One image of a frame that `check` accepts. room: the number of values that may be read from `from` on, at least those
// of the image. transform: the 8 numbers of ImageProjectiveTransformV3. to: [rows, columns, channels].
template <class T>
void project(const T* from, int64_t room, const Frame& frame, const float* transform, T* to) {
  if (frame.rows * frame.columns * frame.channels == 0) return;
  if (frame.height * frame.line() == 0) invalid("images have no pixels");
  Frame limited = frame;
  if (sizeof(T) == 1) limited.fill_value = within(frame.fill_value, 0.0f, 255.0f);
  image(from, room, limited, transform, to);
}

#undef TFHET_STRIP
#undef TFHET_SHUFFLE

}  // namespace tfhet::sampling
