// What the stages autocontrast and equalize, and the policies, do to an image in its full range.

#pragma once

#include "stage.h"
#include "tone.h"

namespace tfhet {

// Returns float32 in 0..1 as uint8, each value as the nearest of 256 levels; `to` has a byte for each value.
inline Image in_levels(const Image& image, uint8_t* to) {
  Image levels = image;
  levels.form.type = Type::uint8;
  levels.data = to;
  levels.room = static_cast<int64_t>(levels.form.bytes());
  // All channels have one line, so it is the line of one channel.
  const float numbers[4] = {255.0f, 0.0f, -tone::INFINITE, tone::INFINITE};
  tone::line(image.values<float>(), to, image.form.values(), 1, numbers);
  return levels;
}

// Writes levels as float32: 255ths.
inline void as_float(const uint8_t* __restrict levels, int64_t count, float* __restrict to) {
  constexpr float LEVEL = static_cast<float>(1.0 / 255.0);
  for (int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(levels[i]) * LEVEL;
}

// Maps each channel's darkest value to 0 and its brightest to the full level; channels of one value stay.
inline Image autocontrasted(const Image& image, Arena& arena) {
  const int64_t channels = image.form.channels;
  float* numbers = scratch<float, 30>(4 * channels);
  Image result = arena.make(image.form, image);
  image.typed([&](auto* from) {
    using T = std::remove_pointer_t<decltype(from)>;
    tone::contrast_numbers(from, image.form.pixels(), channels, nullptr, numbers);
    tone::line(from, result.values<T>(), image.form.pixels(), channels, numbers);
  });
  return result;
}

// Equalises the histogram of each channel. float32 images are rounded to 256 levels first.
inline Image equalized(const Image& image, Arena& arena) {
  const int64_t channels = image.form.channels, pixels = image.form.pixels();
  const bool is_float = image.form.type == Type::float32;
  const Image levels = is_float ? in_levels(image, scratch<uint8_t, 31>(image.form.values())) : image;
  uint8_t* table = scratch<uint8_t, 30>(256 * channels);
  statistics::equalizer(levels.values<uint8_t>(), pixels, channels, table);
  Image result = arena.make(image.form, image);
  if (is_float) {
    float* table_of_floats = scratch<float, 31>(256 * channels);
    as_float(table, 256 * channels, table_of_floats);
    tone::lookup(levels.values<uint8_t>(), result.values<float>(), pixels, channels, table_of_floats, channels);
  } else {
    tone::lookup(levels.values<uint8_t>(), result.values<uint8_t>(), pixels, channels, table, channels);
  }
  return result;
}

}  // namespace tfhet
