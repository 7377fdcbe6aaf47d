// The colours of a pixel together: linear mixes of red, green and blue, a turn of the hue, saturation, grey. Blocks of
// pixels are taken apart into one plane for each colour, so that the compiler can work on whole vectors.

#include <algorithm>
#include <cmath>

#include "op.h"

namespace {

using tfhet::Attributes;
using tfhet::Context;
using tfhet::Input;
using tfhet::Shape;

constexpr int BLOCK = 64;

template <class T>
constexpr float FULL = sizeof(T) == 1 ? 255.0f : 1.0f;

// Comparisons so that NaN becomes the low end.
inline float between(float value, float low, float high) {
  value = value > low ? value : low;
  return value < high ? value : high;
}

// Within the full range; for bytes the nearest level.
template <class T>
inline T restored(float value);
template <>
inline float restored<float>(float value) {
  return between(value, 0.0f, 1.0f);
}
template <>
inline uint8_t restored<uint8_t>(float value) {
  return static_cast<uint8_t>(static_cast<int32_t>(between(value + 0.5f, 0.0f, 255.0f)));
}

struct Planes {
  float red[BLOCK], green[BLOCK], blue[BLOCK];

  // The compiler makes better code of whole blocks, whose length it knows.
  template <class T>
  void take(const T* __restrict from, int count) {
    if (count == BLOCK) {
      take_some(from, BLOCK);
    } else {
      take_some(from, count);
    }
  }
  template <class T>
  void give(T* __restrict to, int count) const {
    if (count == BLOCK) {
      give_some(to, BLOCK);
    } else {
      give_some(to, count);
    }
  }

 private:
  template <class T>
  inline __attribute__((always_inline)) void take_some(const T* __restrict from, int count) {
    for (int i = 0; i < count; ++i) {
      red[i] = static_cast<float>(from[3 * i]);
      green[i] = static_cast<float>(from[3 * i + 1]);
      blue[i] = static_cast<float>(from[3 * i + 2]);
    }
  }
  template <class T>
  inline __attribute__((always_inline)) void give_some(T* __restrict to, int count) const {
    T bytes[3][BLOCK];
    for (int i = 0; i < count; ++i) bytes[0][i] = restored<T>(red[i]);
    for (int i = 0; i < count; ++i) bytes[1][i] = restored<T>(green[i]);
    for (int i = 0; i < count; ++i) bytes[2][i] = restored<T>(blue[i]);
    for (int i = 0; i < count; ++i) {
      to[3 * i] = bytes[0][i];
      to[3 * i + 1] = bytes[1][i];
      to[3 * i + 2] = bytes[2][i];
    }
  }
};

// All pixels of an image through `change(planes)`, which always works on a whole block.
template <class T, class Change>
void each_block(const T* from, T* to, int64_t pixels, const Change& change) {
  Planes planes{};
  for (int64_t i = 0; i < pixels; i += BLOCK) {
    const int count = static_cast<int>(std::min<int64_t>(BLOCK, pixels - i));
    planes.take(from + 3 * i, count);
    change(planes);
    planes.give(to + 3 * i, count);
  }
}

// matrix: what red, green and blue get of red, then of green, then of blue.
void mix(Planes& planes, const float* matrix, const float* offset) {
  for (int i = 0; i < BLOCK; ++i) {
    const float red = planes.red[i], green = planes.green[i], blue = planes.blue[i];
    planes.red[i] = matrix[0] * red + matrix[3] * green + matrix[6] * blue + offset[0];
    planes.green[i] = matrix[1] * red + matrix[4] * green + matrix[7] * blue + offset[1];
    planes.blue[i] = matrix[2] * red + matrix[5] * green + matrix[8] * blue + offset[2];
  }
}

void clip(Planes& planes, float full) {
  for (float* plane : {planes.red, planes.green, planes.blue})
    for (int i = 0; i < BLOCK; ++i) plane[i] = between(plane[i], 0.0f, full);
}

inline float most_of(float a, float b) { return a > b ? a : b; }
inline float least_of(float a, float b) { return a < b ? a : b; }

// sixths: how far the hue is turned, in sixths of a turn, from 0 to below 6.
void turn(Planes& planes, float sixths) {
  for (int i = 0; i < BLOCK; ++i) {
    const float red = planes.red[i], green = planes.green[i], blue = planes.blue[i];
    const float most = most_of(most_of(red, green), blue), least = least_of(least_of(red, green), blue);
    const float spread = most - least;
    const float over = 1.0f / most_of(spread, 1e-9f);
    // Red lies at 0, green at 2, blue at 4. Nothing is calculated under a condition: the compiler makes vectors of that.
    const float of_red = (green - blue) * over, of_green = (blue - red) * over + 2.0f;
    const float of_blue = (red - green) * over + 4.0f;
    float hue = (red >= most ? of_red : (green >= most ? of_green : of_blue)) + sixths;
    hue += hue < 0.0f ? 6.0f : 0.0f;
    hue -= hue >= 6.0f ? 6.0f : 0.0f;
    planes.red[i] = least + spread * between(std::fabs(hue - 3.0f) - 1.0f, 0.0f, 1.0f);
    planes.green[i] = least + spread * between(2.0f - std::fabs(hue - 2.0f), 0.0f, 1.0f);
    planes.blue[i] = least + spread * between(2.0f - std::fabs(hue - 4.0f), 0.0f, 1.0f);
  }
}

void saturate(Planes& planes, float factor) {
  for (int i = 0; i < BLOCK; ++i) {
    const float red = planes.red[i], green = planes.green[i], blue = planes.blue[i];
    const float most = most_of(most_of(red, green), blue), least = least_of(least_of(red, green), blue);
    // At most to where the smallest value is 0.
    const float grown = least_of(factor, most / most_of(most - least, 1e-9f));
    planes.red[i] = most - (most - red) * grown;
    planes.green[i] = most - (most - green) * grown;
    planes.blue[i] = most - (most - blue) * grown;
  }
}

void want_colours(const Input& images) {
  if (images.with_rank(4, "images").shape[3] != 3)
    tfhet::invalid("images have " + std::to_string(images.shape[3]) + " channels, not 3");
}

// Rows for each image, for all at once, or none.
int64_t row_of(const Input& input, const char* name, int64_t batch, int64_t image) {
  if (input.shape[0] != batch && input.shape[0] > 1)
    tfhet::invalid(std::string(name) + " has " + std::to_string(input.shape[0]) + " rows for " +
                   std::to_string(batch) + " images");
  return input.shape[0] == 1 ? 0 : image;
}

// An operation on images of 3 channels: Kernel's run<T>, T being the type of the images.
template <class Kernel>
struct OnColours {
  void compute(Context& context) const {
    const auto images = context.input(0);
    want_colours(images);
    const auto& kernel = static_cast<const Kernel&>(*this);
    images.type() == TF_UINT8 ? kernel.template run<uint8_t>(context, images)
                              : kernel.template run<float>(context, images);
  }
};

struct Mix : OnColours<Mix> {
  explicit Mix(const Attributes&) {}

  template <class T>
  static void run(Context& context, const Input& images) {
    const auto matrices = context.input(1), offsets = context.input(2), turns = context.input(3);
    matrices.with_rank(3, "matrices"), offsets.with_rank(2, "offsets"), turns.with_rank(1, "turns");
    const Shape& shape = images.shape;
    const int64_t batch = shape[0], pixels = shape[1] * shape[2];
    if (matrices.shape[1] != 3 || matrices.shape[2] != 3 || offsets.shape[1] != 3 ||
        offsets.shape[0] != matrices.shape[0])
      tfhet::invalid("matrices are [rows, 3, 3] and offsets [rows, 3]");
    const bool mixes = matrices.shape[0] > 0, turned = turns.shape[0] > 0;
    T* to = context.output<T>(0, shape);
    if (!mixes && !turned) {
      for (int64_t image = 0; image < batch; ++image)
        each_block(images.data<T>() + image * pixels * 3, to + image * pixels * 3, pixels, [](Planes&) {});
      return;
    }
    for (int64_t image = 0; image < batch; ++image) {
      const T* from = images.data<T>() + image * pixels * 3;
      const int64_t row = row_of(matrices, "matrices", batch, image);
      const float* matrix = matrices.data<float>() + 9 * row;
      const float* offset = offsets.data<float>() + 3 * row;
      const float turns_of = turned ? turns.data<float>()[row_of(turns, "turns", batch, image)] : 0.0f;
      const float sixths = 6.0f * (turns_of - std::floor(turns_of));
      if (!turned) {
        each_block(from, to, pixels, [&](Planes& planes) { mix(planes, matrix, offset); });
      } else if (mixes) {
        each_block(from, to, pixels, [&](Planes& planes) {
          mix(planes, matrix, offset);
          clip(planes, FULL<T>);
          turn(planes, sixths);
        });
      } else {
        each_block(from, to, pixels, [&](Planes& planes) { turn(planes, sixths); });
      }
      to += pixels * 3;
    }
  }
};

struct Saturation : OnColours<Saturation> {
  explicit Saturation(const Attributes&) {}

  template <class T>
  static void run(Context& context, const Input& images) {
    const auto factors = context.input(1);
    const Shape& shape = images.shape;
    const int64_t pixels = shape[1] * shape[2];
    if (factors.with_rank(1, "factors").shape[0] != shape[0]) tfhet::invalid("there is one factor for each image");
    T* to = context.output<T>(0, shape);
    for (int64_t image = 0; image < shape[0]; ++image, to += pixels * 3) {
      const float factor = factors.data<float>()[image];
      each_block(images.data<T>() + image * pixels * 3, to, pixels,
                 [&](Planes& planes) { saturate(planes, factor); });
    }
  }
};

// ITU-R 601-2 as Pillow has it, in 65536ths.
constexpr int32_t RED = 19595, GREEN = 38470, BLUE = 7471;

inline uint8_t grey(uint8_t red, uint8_t green, uint8_t blue) {
  return static_cast<uint8_t>((RED * red + GREEN * green + BLUE * blue + 32768) >> 16);
}
inline float grey(float red, float green, float blue) {
  return red * (RED / 65536.0f) + green * (GREEN / 65536.0f) + blue * (BLUE / 65536.0f);
}

struct Grey : OnColours<Grey> {
  explicit Grey(const Attributes& attributes) : channels_(attributes.integer("channels")) {
    if (channels_ != 1 && channels_ != 3) tfhet::invalid("channels is 1 or 3, not " + std::to_string(channels_));
  }

  template <class T>
  void run(Context& context, const Input& images) const {
    const Shape& shape = images.shape;
    T* __restrict to = context.output<T>(0, {shape[0], shape[1], shape[2], channels_});
    const T* __restrict from = images.data<T>();
    const int64_t pixels = shape[0] * shape[1] * shape[2];
    if (channels_ == 1) {
      for (int64_t i = 0; i < pixels; ++i) to[i] = grey(from[3 * i], from[3 * i + 1], from[3 * i + 2]);
    } else {
      for (int64_t i = 0; i < pixels; ++i)
        to[3 * i] = to[3 * i + 1] = to[3 * i + 2] = grey(from[3 * i], from[3 * i + 1], from[3 * i + 2]);
    }
  }

 private:
  int64_t channels_;
};

const tfhet::Op<Mix> mixed{"TfhetMix",
                           {"images: T", "matrices: float", "offsets: float", "turns: float"},
                           {"result: T"},
                           {"T: {uint8, float}"}};
const tfhet::Op<Saturation> saturated{
    "TfhetSaturation", {"images: T", "factors: float"}, {"result: T"}, {"T: {uint8, float}"}};
const tfhet::Op<Grey> greyed{"TfhetGrey", {"images: T"}, {"result: T"}, {"T: {uint8, float}", "channels: int"}};

}  // namespace
