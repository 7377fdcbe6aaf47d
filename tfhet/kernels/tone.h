// Operations on each value of an image: a linear function with limits, and a look-up in a table of 256. Each channel
// may have its own. Both are as fast as memory is.

#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#ifdef __AVX512VBMI__
#include <immintrin.h>
#endif

#include "statistics.h"

namespace tfhet::tone {

// The longest row of numbers per channel that is repeated to fill whole vectors.
inline constexpr int LANES = 96;

// Comparisons so that NaN becomes the low end.
inline float between(float value, float low, float high) {
  value = value > low ? value : low;
  return value < high ? value : high;
}

template <class To>
inline To finished(float value);
template <>
inline float finished<float>(float value) {
  return value;
}
// The nearest level: cut off after adding a half, as the plain operations do.
template <>
inline uint8_t finished<uint8_t>(float value) {
  return static_cast<uint8_t>(static_cast<int32_t>(between(value + 0.5f, 0.0f, 255.0f)));
}

// A table of all channels.
template <class To>
void plain_lookup(const uint8_t* __restrict from, To* __restrict to, int64_t count, const To* __restrict table) {
  for (int64_t i = 0; i < count; ++i) to[i] = table[from[i]];
}

// tables: [256, channels].
template <class To>
void channel_lookup(const uint8_t* __restrict from, To* __restrict to, int64_t pixels, int64_t channels,
                    const To* __restrict tables) {
  if (channels == 3) {
    for (int64_t i = 0; i < 3 * pixels; i += 3) {
      to[i] = tables[3 * from[i]];
      to[i + 1] = tables[3 * from[i + 1] + 1];
      to[i + 2] = tables[3 * from[i + 2] + 2];
    }
    return;
  }
  for (int64_t i = 0; i < pixels; ++i, from += channels, to += channels)
    for (int64_t channel = 0; channel < channels; ++channel)
      to[channel] = tables[from[channel] * channels + channel];
}

#ifdef __AVX512VBMI__
// Whether a table of bytes is cheaper than a multiplication.
inline constexpr bool CHEAP_TABLES = true;

// 256 bytes in four registers: 64 look-ups in three instructions.
struct Bytes {
  explicit Bytes(const uint8_t* table) {
    for (int i = 0; i < 4; ++i) parts[i] = _mm512_loadu_si512(table + 64 * i);
  }
  __m512i at(__m512i index) const {
    const __m512i lower = _mm512_permutex2var_epi8(parts[0], index, parts[1]);
    const __m512i upper = _mm512_permutex2var_epi8(parts[2], index, parts[3]);
    return _mm512_mask_blend_epi8(_mm512_movepi8_mask(index), lower, upper);
  }
  __m512i parts[4];
};

inline __mmask64 left(int64_t count) { return count >= 64 ? ~__mmask64{0} : (__mmask64{1} << count) - 1; }

template <>
inline void plain_lookup(const uint8_t* __restrict from, uint8_t* __restrict to, int64_t count,
                  const uint8_t* __restrict table) {
  const Bytes bytes(table);
  for (int64_t i = 0; i < count; i += 64) {
    const __mmask64 mask = left(count - i);
    _mm512_mask_storeu_epi8(to + i, mask, bytes.at(_mm512_maskz_loadu_epi8(mask, from + i)));
  }
}

template <>
inline void channel_lookup(const uint8_t* __restrict from, uint8_t* __restrict to, int64_t pixels, int64_t channels,
                    const uint8_t* __restrict tables) {
  if (channels != 3) {
    for (int64_t i = 0; i < pixels * channels; ++i) to[i] = tables[from[i] * channels + i % channels];
    return;
  }
  uint8_t planes[3][256];
  for (int i = 0; i < 768; ++i) planes[i % 3][i / 3] = tables[i];
  const Bytes red(planes[0]), green(planes[1]), blue(planes[2]);
  // Every third bit; 64 values on, the pattern of channels has moved by one.
  constexpr __mmask64 THIRDS[3] = {0x9249249249249249, 0x2492492492492492, 0x4924924924924924};
  int phase = 0;
  for (int64_t i = 0; i < 3 * pixels; i += 64, phase = phase == 2 ? 0 : phase + 1) {
    const __mmask64 mask = left(3 * pixels - i);
    const __m512i index = _mm512_maskz_loadu_epi8(mask, from + i);
    __m512i found = red.at(index);
    found = _mm512_mask_mov_epi8(found, THIRDS[(4 - phase) % 3], green.at(index));
    found = _mm512_mask_mov_epi8(found, THIRDS[(5 - phase) % 3], blue.at(index));
    _mm512_mask_storeu_epi8(to + i, mask, found);
  }
}
#else
inline constexpr bool CHEAP_TABLES = false;
#endif

template <bool Ends, class From, class To>
void level_line(const From* __restrict from, To* __restrict to, int64_t count, float scale, float offset, float low,
                float high) {
  for (int64_t i = 0; i < count; ++i) {
    const float value = scale * static_cast<float>(from[i]) + offset;
    to[i] = finished<To>(Ends ? between(value, low, high) : value);
  }
}

inline constexpr float INFINITE = std::numeric_limits<float>::infinity();

// One line for all values. Without ends, NaN stays what it is.
template <class From, class To>
void plain_line(const From* from, To* to, int64_t count, float scale, float offset, float low, float high) {
  low > -INFINITE || high < INFINITE ? level_line<true>(from, to, count, scale, offset, low, high)
                                     : level_line<false>(from, to, count, scale, offset, low, high);
}

// `Lanes` is a multiple of the channels, and the length of the four rows. Infinite ends are omitted, because the number
// of bytes that are read here decides the speed.
template <int Lanes, bool Ends, class From, class To>
void channel_line(const From* __restrict from, To* __restrict to, int64_t count, const float* __restrict rows) {
  const float *scale = rows, *offset = rows + Lanes, *low = rows + 2 * Lanes, *high = rows + 3 * Lanes;
  const auto one = [&](int64_t first, int i) {
    const float value = scale[i] * static_cast<float>(from[first + i]) + offset[i];
    to[first + i] = finished<To>(Ends ? between(value, low[i], high[i]) : value);
  };
  int64_t first = 0;
  for (; first + Lanes <= count; first += Lanes)
    for (int i = 0; i < Lanes; ++i) one(first, i);
  for (int i = 0; i < count - first; ++i) one(first, i);
}

// The line of one image: each part has a number for every channel.
struct Rows {
  const float* part(int index, int64_t channels) const { return numbers + index * channels; }
  bool same(int64_t channels) const {
    for (int index = 0; index < 4; ++index)
      for (int64_t channel = 1; channel < channels; ++channel)
        if (!(part(index, channels)[channel] == part(index, channels)[0])) return false;
    return true;
  }
  const float* numbers;  // scale, offset, low, high
};

template <class From, class To>
void row_line(const From* from, To* to, int64_t count, Rows line, int64_t channels) {
  float rows[4 * LANES];
  for (int row = 0; row < 4; ++row)
    for (int i = 0; i < LANES; i += static_cast<int>(channels))
      std::copy(line.part(row, channels), line.part(row, channels) + channels, rows + row * LANES + i);
  const bool ends = std::any_of(rows + 2 * LANES, rows + 3 * LANES, [](float low) { return low > -INFINITE; }) ||
                    std::any_of(rows + 3 * LANES, rows + 4 * LANES, [](float high) { return high < INFINITE; });
  ends ? channel_line<LANES, true>(from, to, count, rows) : channel_line<LANES, false>(from, to, count, rows);
}

inline void table_line(const uint8_t* from, uint8_t* to, int64_t pixels, Rows line, int64_t channels) {
  const bool same = line.same(channels);
  const int64_t columns = same ? 1 : channels;
  uint8_t* table = scratch<uint8_t>(256 * columns);
  for (int64_t channel = 0; channel < columns; ++channel) {
    const auto number = [&](int part) { return line.part(part, channels)[channel]; };
    uint8_t levels[256], results[256];
    for (int level = 0; level < 256; ++level) levels[level] = static_cast<uint8_t>(level);
    plain_line(levels, results, 256, number(0), number(1), number(2), number(3));
    for (int level = 0; level < 256; ++level) table[level * columns + channel] = results[level];
  }
  same ? plain_lookup(from, to, pixels * channels, table) : channel_lookup(from, to, pixels, channels, table);
}

// scale * value + offset, from low to high. numbers: [4, channels], the scale, offset, low and high of each channel.
template <class From, class To>
void line(const From* from, To* to, int64_t pixels, int64_t channels, const float* numbers) {
  const int64_t count = pixels * channels;
  if (count == 0) return;
  const Rows rows{numbers};
  if constexpr (CHEAP_TABLES && std::is_same_v<From, uint8_t> && std::is_same_v<To, uint8_t>) {
    if (pixels >= 1024) return table_line(from, to, pixels, rows, channels);
  }
  const auto number = [&](int part, int64_t channel) { return rows.part(part, channels)[channel]; };
  if (rows.same(channels)) {
    plain_line(from, to, count, number(0, 0), number(1, 0), number(2, 0), number(3, 0));
  } else if (LANES % channels == 0) {
    row_line(from, to, count, rows, channels);
  } else {
    for (int64_t i = 0; i < count; ++i) {
      const int64_t channel = i % channels;
      plain_line(from + i, to + i, 1, number(0, channel), number(1, channel), number(2, channel), number(3, channel));
    }
  }
}

// Computes the numbers for `line` that scale each channel by the factor about its mean, or, without a factor, from its
// smallest and largest value to the full range.
template <class T>
void contrast_numbers(const T* from, int64_t pixels, int64_t channels, const float* factor, float* numbers) {
  constexpr float FULL = sizeof(T) == 1 ? 255.0f : 1.0f;
  float* found = scratch<float, 3>(3 * channels);
  float *mean = found, *low = found + channels, *high = found + 2 * channels;
  statistics::measure(from, pixels, channels, mean, low, high);
  for (int64_t channel = 0; channel < channels; ++channel) {
    float scale = 1.0f, offset = 0.0f;
    if (factor) {
      scale = *factor;
      offset = mean[channel] * (1.0f - scale);
    } else if (high[channel] > low[channel]) {
      scale = FULL / (high[channel] - low[channel]);
      offset = -low[channel] * scale;
    }
    numbers[channel] = scale;
    numbers[channels + channel] = offset;
    numbers[2 * channels + channel] = 0.0f;
    numbers[3 * channels + channel] = FULL;
  }
}

// Inverts the values from the threshold on.
template <class T>
void solarize(const T* __restrict from, T* __restrict to, int64_t count, float threshold) {
  if constexpr (std::is_same_v<T, uint8_t>) {
    const int least = static_cast<int>(std::ceil(between(threshold, 0.0f, 256.0f)));
    if (least > 255) {
      std::copy(from, from + count, to);
      return;
    }
    const uint8_t bright = static_cast<uint8_t>(least);
    for (int64_t i = 0; i < count; ++i) to[i] = from[i] ^ static_cast<uint8_t>(from[i] >= bright ? 255 : 0);
  } else {
    for (int64_t i = 0; i < count; ++i) {
      const float negative = 1.0f - from[i];
      to[i] = from[i] >= threshold ? negative : from[i];
    }
  }
}

template <class To>
void find(const uint8_t* from, To* to, int64_t pixels, int64_t channels, const To* table, int64_t columns) {
  if (columns == 1) {
    plain_lookup(from, to, pixels * channels, table);
  } else {
    channel_lookup(from, to, pixels, channels, table);
  }
}

// table: [256, columns], with one column for all channels or one for each. Values of float images, from 0 to 1, are
// rounded to levels.
template <class From, class To>
void lookup(const From* from, To* to, int64_t pixels, int64_t channels, const To* table, int64_t columns) {
  if constexpr (std::is_same_v<From, uint8_t>) {
    find(from, to, pixels, channels, table, columns);
  } else {
    // Some pixels at a time, whose levels stay in the nearest cache.
    constexpr int64_t SOME = 1024;
    uint8_t* levels = scratch<uint8_t, 1>(SOME * channels);
    for (int64_t pixel = 0; pixel < pixels; pixel += SOME) {
      const int64_t some = std::min(SOME, pixels - pixel);
      level_line<false>(from + pixel * channels, levels, some * channels, 255.0f, 0.0f, 0.0f, 0.0f);
      find(levels, to + pixel * channels, some, channels, table, columns);
    }
  }
}

}  // namespace tfhet::tone
