// Each image of a batch with the next one, the last with the first: blended, or with a rectangle of it pasted in. Both
// as fast as memory is.

#include <algorithm>

#include "op.h"

namespace {

using tfhet::Attributes;
using tfhet::Context;
using tfhet::Input;
using tfhet::Shape;

inline float finished(float value, float) { return value; }
// The nearest level: cut off after adding a half, as the plain operations do. Between two levels, so within 0..255.
inline uint8_t finished(float value, uint8_t) { return static_cast<uint8_t>(static_cast<int32_t>(value + 0.5f)); }

template <class T>
void blended(const T* __restrict own, const T* __restrict other, float share, int64_t count, T* __restrict to) {
  for (int64_t i = 0; i < count; ++i) {
    const float value = static_cast<float>(own[i]);
    to[i] = finished(value + share * (static_cast<float>(other[i]) - value), T());
  }
}

// Calls one(image, own, other, to) for each image.
template <class T, class One>
void each(Context& context, const Input& images, One one) {
  const Shape& shape = images.shape;
  const int64_t step = shape[1] * shape[2] * shape[3];
  T* to = context.output<T>(0, shape);
  if (!tfhet::elements(shape)) return;
  for (int64_t i = 0; i < shape[0]; ++i)
    one(i, images.data<T>() + i * step, images.data<T>() + (i + 1) % shape[0] * step, to + i * step);
}

class Blend {
 public:
  explicit Blend(const Attributes&) {}

  void compute(Context& context) const {
    const auto images = context.input(0), shares = context.input(1);
    const Shape& shape = images.with_rank(4, "images").shape;
    if (shares.with_rank(1, "shares").shape[0] != shape[0])
      tfhet::invalid("shares are one for each of " + std::to_string(shape[0]) + " images, not " +
                     std::to_string(shares.shape[0]));
    images.type() == TF_UINT8 ? run<uint8_t>(context, images, shares) : run<float>(context, images, shares);
  }

 private:
  template <class T>
  static void run(Context& context, const Input& images, const Input& shares) {
    const int64_t count = images.shape[1] * images.shape[2] * images.shape[3];
    each<T>(context, images, [&](int64_t i, const T* own, const T* other, T* to) {
      // Comparisons so that NaN becomes 0.
      float share = shares.data<float>()[i];
      share = share > 0.0f ? share : 0.0f;
      blended(own, other, share < 1.0f ? share : 1.0f, count, to);
    });
  }
};

class Paste {
 public:
  explicit Paste(const Attributes&) {}

  void compute(Context& context) const {
    const auto images = context.input(0), rectangles = context.input(1);
    const Shape &shape = images.with_rank(4, "images").shape, &size = rectangles.with_rank(2, "rectangles").shape;
    if (size[0] != shape[0] || size[1] != 4)
      tfhet::invalid("rectangles are 4 numbers for each of " + std::to_string(shape[0]) + " images, not [" +
                     std::to_string(size[0]) + ", " + std::to_string(size[1]) + "]");
    images.type() == TF_UINT8 ? run<uint8_t>(context, images, rectangles) : run<float>(context, images, rectangles);
  }

 private:
  // A rectangle: top, bottom, left, right, the second and the last just outside. What lies beyond the image is nothing.
  template <class T>
  static void run(Context& context, const Input& images, const Input& rectangles) {
    const int64_t height = images.shape[1], width = images.shape[2], channels = images.shape[3];
    each<T>(context, images, [&](int64_t i, const T* own, const T* other, T* to) {
      const int32_t* rectangle = rectangles.data<int32_t>() + 4 * i;
      const int64_t top = std::clamp<int64_t>(rectangle[0], 0, height);
      const int64_t bottom = std::clamp<int64_t>(rectangle[1], top, height);
      const int64_t left = std::clamp<int64_t>(rectangle[2], 0, width) * channels;
      const int64_t right = std::clamp<int64_t>(rectangle[3], left / channels, width) * channels;
      const int64_t line = width * channels;
      std::copy_n(own, top * line, to);
      for (int64_t y = top; y < bottom; ++y) {
        const int64_t at = y * line;
        std::copy_n(own + at, left, to + at);
        std::copy_n(other + at + left, right - left, to + at + left);
        std::copy_n(own + at + right, line - right, to + at + right);
      }
      std::copy_n(own + bottom * line, (height - bottom) * line, to + bottom * line);
    });
  }
};

const tfhet::Op<Blend> blend{"TfhetBlend", {"images: T", "shares: float"}, {"result: T"}, {"T: {uint8, float}"}};
const tfhet::Op<Paste> paste{"TfhetPaste", {"images: T", "rectangles: int32"}, {"result: T"}, {"T: {uint8, float}"}};

}  // namespace
