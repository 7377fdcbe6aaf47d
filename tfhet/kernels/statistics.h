// Statistics of an image per channel: mean, smallest and largest value in one pass, and the table that makes the levels
// equally frequent.

#pragma once

#include <algorithm>
#include <limits>

#include "failure.h"

namespace tfhet::statistics {

// Values taken together: whole vectors, and a multiple of 1, 2, 3, 4 and 6 channels.
inline constexpr int MEASURED = 192;

// For each lane. Bytes are summed in 16 bits, which hold 257 of them; floats long enough to be fast, short enough to be
// exact.
template <class T>
struct Sums;
template <>
struct Sums<uint8_t> {
  using type = uint16_t;
  static constexpr int rounds = 256;
};
template <>
struct Sums<float> {
  using type = float;
  static constexpr int rounds = 64;
};

template <class T>
class Lanes {
 public:
  explicit Lanes(const T* from) {
    std::copy(from, from + MEASURED, low_);
    std::copy(from, from + MEASURED, high_);
    std::fill(total_, total_ + MEASURED, 0.0);
  }

  // At most Sums<T>::rounds times MEASURED values.
  void add(const T* __restrict from, int rounds) {
    typename Sums<T>::type sums[MEASURED] = {};
    T low[MEASURED], high[MEASURED];
    std::copy(low_, low_ + MEASURED, low);
    std::copy(high_, high_ + MEASURED, high);
    for (int round = 0; round < rounds; ++round, from += MEASURED) {
      for (int i = 0; i < MEASURED; ++i) sums[i] = static_cast<typename Sums<T>::type>(sums[i] + from[i]);
      for (int i = 0; i < MEASURED; ++i) low[i] = from[i] < low[i] ? from[i] : low[i];
      for (int i = 0; i < MEASURED; ++i) high[i] = from[i] > high[i] ? from[i] : high[i];
    }
    std::copy(low, low + MEASURED, low_);
    std::copy(high, high + MEASURED, high_);
    for (int i = 0; i < MEASURED; ++i) total_[i] += sums[i];
  }

  T low_[MEASURED], high_[MEASURED];
  double total_[MEASURED];
};

// Of one image -> [channels] each.
template <class T>
void measure(const T* from, int64_t pixels, int64_t channels, float* mean, float* low, float* high) {
  const int64_t count = pixels * channels;
  double* total = scratch<double, 1>(channels);
  for (int64_t channel = 0; channel < channels; ++channel) {
    total[channel] = 0.0;
    low[channel] = std::numeric_limits<float>::infinity();
    high[channel] = -std::numeric_limits<float>::infinity();
  }
  const auto take = [&](int64_t channel, T least, T most, double sum) {
    total[channel] += sum;
    low[channel] = std::min(low[channel], static_cast<float>(least));
    high[channel] = std::max(high[channel], static_cast<float>(most));
  };
  int64_t done = 0;
  if (count >= MEASURED && MEASURED % channels == 0) {
    Lanes<T> lanes(from);
    while (count - done >= MEASURED) {
      const int rounds = static_cast<int>(std::min<int64_t>(Sums<T>::rounds, (count - done) / MEASURED));
      lanes.add(from + done, rounds);
      done += rounds * MEASURED;
    }
    for (int i = 0; i < MEASURED; i += static_cast<int>(channels))
      for (int channel = 0; channel < channels; ++channel)
        take(channel, lanes.low_[i + channel], lanes.high_[i + channel], lanes.total_[i + channel]);
  }
  for (; done < count; ++done) take(done % channels, from[done], from[done], from[done]);
  for (int64_t channel = 0; channel < channels; ++channel)
    mean[channel] = static_cast<float>(total[channel] / static_cast<double>(pixels));
}

// counts: of the 256 levels; the table goes to every `channels`th place.
inline void spread(const uint32_t* counts, int64_t pixels, uint8_t* table, int64_t channels) {
  int brightest = 255;
  while (brightest > 0 && counts[brightest] == 0) --brightest;
  // A step is a 255th of all pixels but those of the brightest level; where there is none, nothing changes.
  const int64_t step = (pixels - counts[brightest]) / 255;
  int64_t below = 0;
  for (int level = 0; level < 256; ++level) {
    table[level * channels] = static_cast<uint8_t>(step ? std::min<int64_t>((below + step / 2) / step, 255) : level);
    below += counts[level];
  }
}

template <int Known, int Ways>
void count_levels(const uint8_t* __restrict from, int64_t pixels, int64_t given, uint32_t* __restrict counts) {
  const int64_t channels = Known ? Known : given;
  int64_t pixel = 0;
  for (; pixel + Ways <= pixels; pixel += Ways)
    for (int way = 0; way < Ways; ++way)
      for (int64_t channel = 0; channel < channels; ++channel)
        ++counts[(way * channels + channel) * 256 + *from++];
  for (; pixel < pixels; ++pixel)
    for (int64_t channel = 0; channel < channels; ++channel) ++counts[channel * 256 + *from++];
}

// table: [256, channels], the level that replaces each level of each channel.
inline void equalizer(const uint8_t* from, int64_t pixels, int64_t channels, uint8_t* table) {
  // Neighbours of one level count in different places, so that none waits for the other.
  constexpr int WAYS = 4;
  uint32_t* counts = scratch<uint32_t>(WAYS * channels * 256);
  std::fill(counts, counts + WAYS * channels * 256, 0u);
  if (channels == 3) {
    count_levels<3, WAYS>(from, pixels, 3, counts);
  } else {
    count_levels<0, WAYS>(from, pixels, channels, counts);
  }
  for (int way = 1; way < WAYS; ++way)
    for (int64_t i = 0; i < channels * 256; ++i) counts[i] += counts[way * channels * 256 + i];
  for (int64_t channel = 0; channel < channels; ++channel)
    spread(counts + 256 * channel, pixels, table + channel, channels);
}

}  // namespace tfhet::statistics
