// Stages that paint over a rectangle of each image: cutout and random_erasing.

#include "painting.h"

#include "stage.h"

namespace tfhet {

namespace {

// box: top, bottom, left, right, in pixels; bottom and right are just outside.
Image painted(const Image& image, Arena& arena, const float* box, float value) {
  Image result = arena.make(image.form, image);
  image.typed([&](auto* from) {
    using T = std::remove_pointer_t<decltype(from)>;
    painting::paint<T>(from, result.values<T>(), image.form.height, image.form.width, image.form.channels, box, value);
  });
  return result;
}

class Cutout : public Stage {
 public:
  explicit Cutout(const Config& config) : size_(config.integer("size")), value_(config.single("value")) {}

  std::vector<Parameter> parameters() const override { return {{"centre_y", 'f'}, {"centre_x", 'f'}}; }
  void draw(Key key, const Form&, Slot* to) const override {
    to[0].number = key.uniform(0);
    to[1].number = key.uniform(1);
  }
  Form output(const Form& form) const override {
    check_pixels(form, "cutout");
    return form;
  }
  Image apply(const Image& image, Arena& arena, const Slot* drawn) const override {
    const float size = static_cast<float>(size_);
    const float top = first(drawn[0].single(), image.form.height), left = first(drawn[1].single(), image.form.width);
    const float box[4] = {top, top + size, left, left + size};
    return painted(image, arena, box, value_);
  }

 private:
  // The first row or column of the square.
  float first(float centre, int64_t length) const {
    const float pixels = static_cast<float>(length);
    // The product may round up to the length itself, which is one too far.
    return std::min(std::floor(centre * pixels), pixels - 1.0f) - static_cast<float>(size_ / 2);
  }

  const int64_t size_;
  const float value_;
};

class RandomErasing : public Stage {
 public:
  explicit RandomErasing(const Config& config)
      : probability_(config.number("probability")), scale_(config.numbers("scale")), value_(config.single("value")) {
    const std::vector<double>& ratio = config.numbers("ratio");
    if (scale_.size() != 2 || ratio.size() != 2) invalid("stage random_erasing: scale and ratio are pairs");
    for (int64_t i = 0; i < RATIOS; ++i)
      ratios_.push_back(static_cast<float>(
          ratio[0] * std::pow(ratio[1] / ratio[0], (static_cast<double>(i) + 0.5) / static_cast<double>(RATIOS))));
  }

  std::vector<Parameter> parameters() const override {
    return {{"erase", 'b'}, {"area", 'f'}, {"ratio", 'f'}, {"top", 'f'}, {"left", 'f'}};
  }
  void draw(Key key, const Form&, Slot* to) const override {
    to[0].number = key.bernoulli(0, probability_);
    to[1].number = key.uniform(1, scale_[0], scale_[1]);
    to[2].number = ratios_[key.below(2, RATIOS)];
    to[3].number = key.uniform(3);
    to[4].number = key.uniform(4);
  }
  Form output(const Form& form) const override {
    check_pixels(form, "random_erasing");
    return form;
  }
  Image apply(const Image& image, Arena& arena, const Slot* drawn) const override {
    if (!drawn[0].flag()) return image;
    const float height = static_cast<float>(image.form.height), width = static_cast<float>(image.form.width);
    const float area = drawn[1].single() * height * width, ratio = drawn[2].single();
    const float tall = std::min(std::nearbyint(std::sqrt(area * ratio)), height);
    const float wide = std::min(std::nearbyint(std::sqrt(area / ratio)), width);
    // The product may round up to the room itself, which is one too far.
    const float top = std::min(std::floor(drawn[3].single() * (height - tall + 1.0f)), height - tall);
    const float left = std::min(std::floor(drawn[4].single() * (width - wide + 1.0f)), width - wide);
    const float box[4] = {top, top + tall, left, left + wide};
    return painted(image, arena, box, value_);
  }

 private:
  // Number of different shapes; a power of 2, so that products with it are exact.
  static constexpr int64_t RATIOS = 4096;

  const double probability_;
  const std::vector<double> scale_;
  const float value_;
  std::vector<float> ratios_;
};

const Registered<Cutout> cutout{"cutout"};
const Registered<RandomErasing> random_erasing{"random_erasing"};

}  // namespace

}  // namespace tfhet
