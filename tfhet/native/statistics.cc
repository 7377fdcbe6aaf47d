// What an image looks like, per channel: mean, smallest and largest value in one pass; and of its levels the table that
// makes them equally frequent.

#include <algorithm>

#include "statistics.h"

namespace {

using tfhet::Attributes;
using tfhet::Context;
using tfhet::Input;
using tfhet::Shape;

class Statistics {
 public:
  explicit Statistics(const Attributes&) {}

  void compute(Context& context) const {
    const auto images = context.input(0);
    const Shape& shape = images.with_rank(4, "images").shape;
    const int64_t pixels = shape[1] * shape[2], channels = shape[3];
    float* results[3];
    for (int i = 0; i < 3; ++i) results[i] = context.output<float>(i, {shape[0], channels});
    for (int64_t image = 0; image < shape[0]; ++image) {
      const int64_t first = image * pixels * channels, to = image * channels;
      if (images.type() == TF_UINT8) {
        tfhet::measure(images.data<uint8_t>() + first, pixels, channels, results[0] + to, results[1] + to, results[2] + to);
      } else {
        tfhet::measure(images.data<float>() + first, pixels, channels, results[0] + to, results[1] + to, results[2] + to);
      }
    }
  }
};

// counts: of the 256 levels; the table goes to every `channels`th place.
void spread(const uint32_t* counts, int64_t pixels, uint8_t* table, int64_t channels) {
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

class Equalizer {
 public:
  explicit Equalizer(const Attributes&) {}

  void compute(Context& context) const {
    const auto images = context.input(0);
    const Shape& shape = images.with_rank(4, "images").shape;
    const int64_t pixels = shape[1] * shape[2], channels = shape[3];
    uint8_t* table = context.output<uint8_t>(0, {shape[0], 256, channels});
    // Neighbours of one level count in different places, so that none waits for the other.
    constexpr int WAYS = 4;
    uint32_t* counts = tfhet::scratch<uint32_t>(WAYS * channels * 256);
    for (int64_t image = 0; image < shape[0]; ++image, table += 256 * channels) {
      const uint8_t* from = images.data<uint8_t>() + image * pixels * channels;
      std::fill(counts, counts + WAYS * channels * 256, 0u);
      if (channels == 3) {
        count<3, WAYS>(from, pixels, 3, counts);
      } else {
        count<0, WAYS>(from, pixels, channels, counts);
      }
      for (int way = 1; way < WAYS; ++way)
        for (int64_t i = 0; i < channels * 256; ++i) counts[i] += counts[way * channels * 256 + i];
      for (int64_t channel = 0; channel < channels; ++channel)
        spread(counts + 256 * channel, pixels, table + channel, channels);
    }
  }

 private:
  template <int Known, int Ways>
  static void count(const uint8_t* __restrict from, int64_t pixels, int64_t given, uint32_t* __restrict counts) {
    const int64_t channels = Known ? Known : given;
    int64_t pixel = 0;
    for (; pixel + Ways <= pixels; pixel += Ways)
      for (int way = 0; way < Ways; ++way)
        for (int64_t channel = 0; channel < channels; ++channel)
          ++counts[(way * channels + channel) * 256 + *from++];
    for (; pixel < pixels; ++pixel)
      for (int64_t channel = 0; channel < channels; ++channel) ++counts[channel * 256 + *from++];
  }
};

const tfhet::Op<Statistics> statistics{
    "TfhetStatistics", {"images: T"}, {"mean: float", "low: float", "high: float"}, {"T: {uint8, float}"}};
const tfhet::Op<Equalizer> equalizer{"TfhetEqualizer", {"images: uint8"}, {"tables: uint8"}};

}  // namespace
