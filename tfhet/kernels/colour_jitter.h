// Changes of brightness, contrast, saturation and hue, in this order: what color_jitter and the policies compute.

#pragma once

#include "colour.h"
#include "stage.h"
#include "tone.h"

namespace tfhet {

// Returns the changed image, of 1 or 3 channels. A step with nullptr is omitted. brightness, contrast, saturation:
// factors. hue: in turns. The first three are one affine map of the colours. Images of 1 channel have no saturation and
// no hue.
inline Image jittered(const Image& image, Arena& arena, const float* brightness, const float* contrast,
                      const float* saturation, const float* hue) {
  const int64_t channels = image.form.channels, pixels = image.form.pixels();
  check_colours(image.form, "color_jitter");
  const bool has_colours = channels == 3;
  const float grey[3] = {has_colours ? colour::RED / 65536.0f : 1.0f, colour::GREEN / 65536.0f, colour::BLUE / 65536.0f};
  const bool has_gain = brightness || contrast;
  float gain = brightness ? *brightness : 1.0f, added = 0.0f;
  if (contrast) {
    float means[3], low[3], high[3];
    image.typed([&](auto* from) { statistics::measure(from, pixels, channels, means, low, high); });
    float mean = means[0] * grey[0];
    for (int64_t i = 1; i < channels; ++i) mean += means[i] * grey[i];
    added = (1.0f - *contrast) * (brightness ? gain * mean : mean);
    gain = brightness ? gain * *contrast : *contrast;
  }
  Image result = arena.make(image.form, image);
  if (!has_colours || !(saturation || hue)) {
    const float full = image.form.full();
    float numbers[12];
    for (int64_t i = 0; i < channels; ++i) {
      numbers[i] = gain;
      numbers[channels + i] = added;
      numbers[2 * channels + i] = 0.0f;
      numbers[3 * channels + i] = full;
    }
    image.typed([&](auto* from) {
      using T = std::remove_pointer_t<decltype(from)>;
      tone::line(from, result.values<T>(), pixels, channels, numbers);
    });
    return result;
  }
  float matrix[9];  // what red, green and blue get of red, then of green, then of blue
  for (int from = 0; from < 3; ++from)
    for (int to = 0; to < 3; ++to) {
      const float own = from == to ? 1.0f : 0.0f;
      matrix[3 * from + to] = saturation ? *saturation * own + (1.0f - *saturation) * grey[from] : own;
      if (has_gain) matrix[3 * from + to] *= gain;
    }
  const float offset[3] = {added, added, added};
  image.typed([&](auto* from) {
    using T = std::remove_pointer_t<decltype(from)>;
    colour::mix(from, result.values<T>(), pixels, has_gain || saturation ? matrix : nullptr, offset, hue);
  });
  return result;
}

}  // namespace tfhet
