// Stages that change the colours of images.

#include "colour.h"
#include "colour_jitter.h"
#include "stage.h"

namespace tfhet {

namespace {

class RandomHue : public Stage {
 public:
  explicit RandomHue(const Config& config) : delta_(config.number("delta")) {}

  std::vector<Parameter> parameters() const override { return {{"hue", 'f'}}; }
  void draw(Key key, const Form&, Slot* to) const override { to[0].number = key.uniform(0, -delta_, delta_); }
  Image apply(const Image& image, Arena& arena, const Slot* drawn) const override {
    if (image.form.channels != 3) return image;
    Image result = arena.make(image.form, image);
    const float turns = drawn[0].single();
    image.typed([&](auto* from) {
      using T = std::remove_pointer_t<decltype(from)>;
      colour::mix<T>(from, result.values<T>(), image.form.pixels(), nullptr, nullptr, &turns);
    });
    return result;
  }

 private:
  double delta_;
};

class RandomSaturation : public Stage {
 public:
  explicit RandomSaturation(const Config& config) : lower_(config.number("lower")), upper_(config.number("upper")) {}

  std::vector<Parameter> parameters() const override { return {{"saturation", 'f'}}; }
  void draw(Key key, const Form&, Slot* to) const override { to[0].number = key.uniform(0, lower_, upper_); }
  Image apply(const Image& image, Arena& arena, const Slot* drawn) const override {
    if (image.form.channels != 3) return image;
    Image result = arena.make(image.form, image);
    image.typed([&](auto* from) {
      using T = std::remove_pointer_t<decltype(from)>;
      colour::saturate<T>(from, result.values<T>(), image.form.pixels(), drawn[0].single());
    });
    return result;
  }

 private:
  double lower_, upper_;
};

class Grayscale : public Stage {
 public:
  explicit Grayscale(const Config& config) : channels_(config.integer("channels")) {
    if (channels_ != 1 && channels_ != 3) invalid("channels are 1 or 3");
  }

  Form output(const Form& form) const override {
    if (form.channels != 1 && form.channels != 3) invalid("grayscale needs images of 1 or 3 channels");
    return {form.type, form.height, form.width, channels_};
  }
  Image apply(const Image& image, Arena& arena, const Slot*) const override {
    const Form form = output(image.form);
    if (form == image.form && channels_ == 1) return image;
    Image result = arena.make(form, image);
    image.typed([&](auto* from) {
      using T = std::remove_pointer_t<decltype(from)>;
      T* to = result.values<T>();
      if (image.form.channels == 3) return colour::grey<T>(from, to, form.pixels(), channels_);
      for (int64_t i = 0; i < form.values(); ++i) to[i] = from[i / 3];
    });
    return result;
  }

 private:
  int64_t channels_;
};

class ColorJitter : public Stage {
 public:
  explicit ColorJitter(const Config& config) {
    for (const char* name : NAMES) most_.push_back(config.number(name));
  }

  std::vector<Parameter> parameters() const override {
    std::vector<Parameter> found;
    for (int i = 0; i < 4; ++i)
      if (most_[i] > 0.0) found.push_back({NAMES[i], 'f'});
    return found;
  }
  void draw(Key key, const Form&, Slot* to) const override {
    for (int i = 0; i < 4; ++i) {
      if (most_[i] <= 0.0) continue;
      to++->number = i < 3 ? key.uniform(i, std::max(0.0, 1.0 - most_[i]), 1.0 + most_[i]) : key.uniform(3, -most_[3], most_[3]);
    }
  }
  Image apply(const Image& image, Arena& arena, const Slot* drawn) const override {
    float values[4];
    const float* given[4] = {};
    for (int i = 0; i < 4; ++i) {
      if (most_[i] <= 0.0) continue;
      values[i] = drawn++->single();
      given[i] = values + i;
    }
    return jittered(image, arena, given[0], given[1], given[2], given[3]);
  }

 private:
  static constexpr const char* NAMES[4] = {"brightness", "contrast", "saturation", "hue"};
  std::vector<double> most_;
};

const Registered<RandomHue> random_hue{"random_hue"};
const Registered<RandomSaturation> random_saturation{"random_saturation"};
const Registered<Grayscale> grayscale{"grayscale"};
const Registered<ColorJitter> color_jitter{"color_jitter"};

}  // namespace

}  // namespace tfhet
