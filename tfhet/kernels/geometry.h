// Transforms of output to input points, as in ImageProjectiveTransformV3, and stages that resize parts of images.

#pragma once

#include <cmath>

#include "resize.h"
#include "sampling.h"
#include "stage.h"

namespace tfhet {

// Returns the transform that stands for sampling by `first` and then by `later`.
inline Transform composed(const Transform& first, const Transform& later) {
  // Both send output to input points, so that the later one applies first to an output point.
  const float a[9] = {first.t[0], first.t[1], first.t[2], first.t[3], first.t[4], first.t[5], first.t[6], first.t[7], 1.0f};
  const float b[9] = {later.t[0], later.t[1], later.t[2], later.t[3], later.t[4], later.t[5], later.t[6], later.t[7], 1.0f};
  float product[9];
  for (int row = 0; row < 3; ++row)
    for (int column = 0; column < 3; ++column)
      // Rounded as by the matrix product of oneDNN, which TensorFlow uses.
      product[3 * row + column] =
          std::fma(a[3 * row + 2], b[6 + column], std::fma(a[3 * row + 1], b[3 + column], a[3 * row] * b[column]));
  Transform result;
  for (int i = 0; i < 8; ++i) result.t[i] = product[i] / product[8];
  return result;
}

// Returns the transform that moves the content by `down` and `right` pixels.
inline Transform translation(float down, float right) { return {{1.0f, 0.0f, -right, 0.0f, 1.0f, -down, 0.0f, 0.0f}}; }

// The coordinate of the last row or column.
inline float last(int64_t length) { return static_cast<float>(length) - 1.0f; }

// Returns the transform that rotates about the centre. angle: in radians, positive counter-clockwise.
inline Transform rotation(float angle, const Form& form) {
  // Rounded from double, so that all CPUs have the same numbers.
  const float cos = static_cast<float>(std::cos(static_cast<double>(angle)));
  const float sin = static_cast<float>(std::sin(static_cast<double>(angle)));
  const float right = last(form.width), bottom = last(form.height);
  const float x = (right - (cos * right - sin * bottom)) / 2.0f;
  const float y = (bottom - (sin * right + cos * bottom)) / 2.0f;
  return {{cos, -sin, x, sin, cos, y, 0.0f, 0.0f}};
}

// What lies beyond the edge.
struct Filling {
  sampling::Fill mode = sampling::Fill::nearest;
  float value = 0.0f;

  Filling() = default;
  Filling(const std::string& name, double value) : value(static_cast<float>(value)) {
    if (name == "constant") mode = sampling::Fill::constant;
    else if (name == "nearest") mode = sampling::Fill::nearest;
    else if (name == "reflect") mode = sampling::Fill::reflect;
    else if (name == "wrap") mode = sampling::Fill::wrap;
    else throw Failure{Code::internal, "unknown fill mode " + name};
  }
};

// Returns the image sampled bilinearly at transformed places, of height x width pixels.
inline Image sampled(const Image& image, Arena& arena, const Transform& transform, const Filling& filling, int64_t height,
                     int64_t width) {
  Form form = image.form;
  form.height = height;
  form.width = width;
  Image result = arena.make(form, image);
  sampling::Frame frame{image.form.height, image.form.width, height, width, form.channels, filling.mode, filling.value, false};
  sampling::check(frame);
  image.typed([&](auto* from) {
    using T = std::remove_pointer_t<decltype(from)>;
    if (sizeof(T) == 1) frame.fill_value = std::min(std::max(frame.fill_value, 0.0f), 255.0f);
    sampling::project<T>(from, image.room / static_cast<int64_t>(sizeof(T)), frame, transform.t, result.values<T>());
  });
  return result;
}

// A stage that only moves pixels: one transform with a bilinear sampling.
class Geometric : public Stage {
 public:
  Image apply(const Image& image, Arena& arena, const Slot* drawn) const override {
    const Form form = output(image.form);
    return sampled(image, arena, transform(image.form, drawn), filling, form.height, form.width);
  }

  Filling filling;
};

// A stage that resizes a part of each image to one size.
class WindowStage : public Stage {
 public:
  int64_t height, width;
  Sampling scaling;

  Form output(const Form& form) const override { return {form.type, height, width, form.channels}; }
  Image apply(const Image& image, Arena& arena, const Slot* drawn) const override {
    return resized(image, arena, drawn, false);
  }
  Image resized(const Image& image, Arena& arena, const Slot* drawn, bool flip) const {
    Image result = arena.make(output(image.form), image);
    const Part part = this->part(image.form, drawn);
    image.typed([&](auto* from) {
      using T = std::remove_pointer_t<decltype(from)>;
      resize::resize_window<T>(from, image.form.height, image.form.width, image.form.channels, &part.top, image.index, flip,
                               height, width, scaling, result.values<T>());
    });
    return result;
  }

 protected:
  WindowStage(const Config& config, bool confined)
      : height(config.integer("height")),
        width(config.integer("width")),
        scaling{config.flag("antialias"), confined} {
    if (height < 1 || width < 1) invalid("height and width are at least 1");
  }
};

// The stage `decode`: see decode.cc.
class Decoder : public Stage {
 public:
  // Returns a part of the image in a file, resized, and mirrored if `flip`.
  virtual Image window(const Image& file, Arena& arena, const WindowStage& stage, const Part& part, bool flip) const = 0;
};

}  // namespace tfhet
