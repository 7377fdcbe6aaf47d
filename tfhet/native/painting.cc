// A rectangle of one value in each image.

#include <algorithm>
#include <cmath>

#include "op.h"

namespace {

using tfhet::Attributes;
using tfhet::Context;
using tfhet::Input;
using tfhet::Shape;

// The first whole number from `edge` on, from 0 to `length`; 0 for NaN.
int64_t first_from(float edge, int64_t length) {
  return edge > 0.0f ? std::min(length, static_cast<int64_t>(std::min(std::ceil(edge), 1e9f))) : 0;
}

class Painting {
 public:
  explicit Painting(const Attributes& attributes) : value_(attributes.number("value")) {}

  void compute(Context& context) const {
    const auto images = context.input(0), boxes = context.input(1);
    images.with_rank(4, "images");
    if (boxes.with_rank(2, "boxes").shape[0] != images.shape[0] || boxes.shape[1] != 4)
      tfhet::invalid("boxes are top, bottom, left, right of each image");
    images.type() == TF_UINT8 ? run<uint8_t>(context, images, boxes) : run<float>(context, images, boxes);
  }

 private:
  template <class T>
  void run(Context& context, const Input& images, const Input& boxes) const {
    const Shape& shape = images.shape;
    const int64_t height = shape[1], width = shape[2], channels = shape[3], step = height * width * channels;
    if (sizeof(T) == 1 && !(value_ >= 0.0f && value_ <= 255.0f)) tfhet::invalid("value is from 0 to 255");
    const T value = static_cast<T>(value_);
    const float* box = boxes.data<float>();
    T* to = context.output<T>(0, shape);
    for (int64_t image = 0; image < shape[0]; ++image, box += 4, to += step) {
      std::memcpy(to, images.data<T>() + image * step, step * sizeof(T));
      const int64_t bottom = first_from(box[1], height), left = first_from(box[2], width);
      const int64_t right = first_from(box[3], width);
      if (right <= left) continue;
      for (int64_t y = first_from(box[0], height); y < bottom; ++y)
        std::fill(to + (y * width + left) * channels, to + (y * width + right) * channels, value);
    }
  }

  float value_;
};

const tfhet::Op<Painting> painting{
    "TfhetPainting", {"images: T", "boxes: float"}, {"result: T"}, {"T: {uint8, float}", "value: float"}};

}  // namespace
