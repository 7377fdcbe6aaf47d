// Stages that change the levels of images, and their range or type.

#include "noise.h"
#include "power.h"
#include "stage.h"
#include "tone.h"
#include "tone_stages.h"

namespace tfhet {

namespace {

constexpr float INFINITE = std::numeric_limits<float>::infinity();

// The same line for all channels.
void fill_line(float* numbers, int64_t channels, float scale, float offset, float low, float high) {
  const float parts[4] = {scale, offset, low, high};
  for (int part = 0; part < 4; ++part) std::fill_n(numbers + part * channels, channels, parts[part]);
}

// A stage whose `apply` is its line.
class LineStage : public Stage {
 public:
  Image apply(const Image& image, Arena& arena, const Slot* drawn) const override {
    float* numbers = scratch<float, 24>(4 * image.form.channels);
    line(image, drawn, numbers);
    Image result = arena.make(output(image.form), image);
    image.typed([&](auto* from) {
      result.typed([&](auto* to) { tone::line(from, to, image.form.pixels(), image.form.channels, numbers); });
    });
    return result;
  }
};

class Invert : public Stage {
 public:
  explicit Invert(const Config&) {}

  Image apply(const Image& image, Arena& arena, const Slot*) const override {
    Image result = arena.make(image.form, image);
    const int64_t count = image.form.values();
    if (image.form.type == Type::uint8) {
      const uint8_t* from = image.values<uint8_t>();
      uint8_t* __restrict to = result.values<uint8_t>();
      for (int64_t i = 0; i < count; ++i) to[i] = static_cast<uint8_t>(~from[i]);
    } else {
      const float* from = image.values<float>();
      float* __restrict to = result.values<float>();
      for (int64_t i = 0; i < count; ++i) to[i] = 1.0f - from[i];
    }
    return result;
  }
  void line(const Image& image, const Slot*, float* numbers) const override {
    fill_line(numbers, image.form.channels, -1.0f, image.form.full(), -INFINITE, INFINITE);
  }
};

class Solarize : public Stage {
 public:
  explicit Solarize(const Config& config) : threshold_(config.integer("threshold")) {}

  Image apply(const Image& image, Arena& arena, const Slot*) const override {
    if (threshold_ == 256) return image;
    Image result = arena.make(image.form, image);
    const double whole = static_cast<double>(threshold_);
    const float threshold = static_cast<float>(image.form.type == Type::uint8 ? whole : whole / 255.0);
    image.typed([&](auto* from) {
      using T = std::remove_pointer_t<decltype(from)>;
      tone::solarize<T>(from, result.values<T>(), image.form.values(), threshold);
    });
    return result;
  }

 private:
  int64_t threshold_;
};

// A table of 256 levels for all channels, of uint8 images, or of float32 images that are rounded to levels.
Image looked_up(const Image& image, Arena& arena, const uint8_t* table) {
  Image result = arena.make(image.form, image);
  const int64_t pixels = image.form.pixels(), channels = image.form.channels;
  if (image.form.type == Type::uint8) {
    tone::lookup(image.values<uint8_t>(), result.values<uint8_t>(), pixels, channels, table, 1);
  } else {
    float levels[256];
    for (int level = 0; level < 256; ++level) levels[level] = static_cast<float>(table[level]) * (1.0f / 255.0f);
    tone::lookup(image.values<float>(), result.values<float>(), pixels, channels, levels, 1);
  }
  return result;
}

class Posterize : public Stage {
 public:
  explicit Posterize(const Config& config) {
    const int64_t bits = config.integer("bits");
    if (bits < 1 || bits > 8) invalid("bits are 1 to 8");
    for (int level = 0; level < 256; ++level) table_[level] = static_cast<uint8_t>(level & (256 - (1 << (8 - bits))));
  }
  Image apply(const Image& image, Arena& arena, const Slot*) const override { return looked_up(image, arena, table_); }

 private:
  uint8_t table_[256];
};

class Gamma : public Stage {
 public:
  explicit Gamma(const Config& config) : gamma_(config.number("gamma")), gain_(config.number("gain")) {
    for (int level = 0; level < 256; ++level)
      table_[level] = static_cast<uint8_t>(
          std::min(std::floor(gain_ * std::pow(level / 255.0, gamma_) * 255.0 + 0.5), 255.0));
  }
  Image apply(const Image& image, Arena& arena, const Slot*) const override {
    if (image.form.type == Type::uint8) return looked_up(image, arena, table_);
    Image result = arena.make(image.form, image);
    power::power(image.values<float>(), result.values<float>(), image.form.values(), static_cast<float>(gamma_),
                 static_cast<float>(gain_));
    return result;
  }

 private:
  double gamma_, gain_;
  uint8_t table_[256];
};

class RandomBrightness : public LineStage {
 public:
  explicit RandomBrightness(const Config& config) : delta_(config.number("delta")) {}

  std::vector<Parameter> parameters() const override { return {{"brightness", 'f'}}; }
  void draw(Key key, const Form&, Slot* to) const override { to[0].number = key.uniform(0, -delta_, delta_); }
  void line(const Image& image, const Slot* drawn, float* numbers) const override {
    const float full = image.form.full();
    fill_line(numbers, image.form.channels, 1.0f, drawn[0].single() * full, 0.0f, full);
  }

 private:
  double delta_;
};

class Autocontrast : public Stage {
 public:
  explicit Autocontrast(const Config&) {}

  Image apply(const Image& image, Arena& arena, const Slot*) const override { return autocontrasted(image, arena); }
  void line(const Image& image, const Slot*, float* numbers) const override {
    image.typed([&](auto* from) {
      tone::contrast_numbers(from, image.form.pixels(), image.form.channels, nullptr, numbers);
    });
  }
};

class RandomContrast : public LineStage {
 public:
  explicit RandomContrast(const Config& config) : lower_(config.number("lower")), upper_(config.number("upper")) {}

  std::vector<Parameter> parameters() const override { return {{"contrast", 'f'}}; }
  void draw(Key key, const Form&, Slot* to) const override { to[0].number = key.uniform(0, lower_, upper_); }
  void line(const Image& image, const Slot* drawn, float* numbers) const override {
    const float factor = drawn[0].single();
    image.typed([&](auto* from) {
      tone::contrast_numbers(from, image.form.pixels(), image.form.channels, &factor, numbers);
    });
  }

 private:
  double lower_, upper_;
};

class Equalize : public Stage {
 public:
  explicit Equalize(const Config&) {}
  Image apply(const Image& image, Arena& arena, const Slot*) const override { return equalized(image, arena); }
};

class GaussianNoise : public Stage {
 public:
  explicit GaussianNoise(const Config& config) : stddev_(config.number("stddev")) {}

  std::vector<Parameter> parameters() const override { return {{"noise", 'u'}}; }
  void draw(Key key, const Form&, Slot* to) const override { to[0].word = key.bits(0); }
  Image apply(const Image& image, Arena& arena, const Slot* drawn) const override {
    Image result = arena.make(image.form, image);
    const float deviation = static_cast<float>(stddev_ * static_cast<double>(image.form.full()));
    image.typed([&](auto* from) {
      using T = std::remove_pointer_t<decltype(from)>;
      noise::add_noise<T>(from, result.values<T>(), image.form.values(), drawn[0].word, deviation);
    });
    return result;
  }

 private:
  double stddev_;
};

class Rescale : public LineStage {
 public:
  explicit Rescale(const Config& config) : scale_(config.single("scale")), offset_(config.single("offset")) {}

  Form output(const Form& form) const override { return {Type::float32, form.height, form.width, form.channels}; }
  void line(const Image& image, const Slot*, float* numbers) const override {
    fill_line(numbers, image.form.channels, scale_, offset_, -INFINITE, INFINITE);
  }

 private:
  float scale_, offset_;
};

class Cast : public LineStage {
 public:
  explicit Cast(const Config& config) : type_(config.text("dtype") == "uint8" ? Type::uint8 : Type::float32) {}

  Form output(const Form& form) const override { return {type_, form.height, form.width, form.channels}; }
  Image apply(const Image& image, Arena& arena, const Slot* drawn) const override {
    return image.form.type == type_ ? image : LineStage::apply(image, arena, drawn);
  }
  void line(const Image& image, const Slot*, float* numbers) const override {
    const bool whole = type_ == Type::uint8;
    fill_line(numbers, image.form.channels, 1.0f, 0.0f, whole ? 0.0f : -INFINITE, whole ? 255.0f : INFINITE);
  }

 private:
  Type type_;
};

class Normalize : public LineStage {
 public:
  explicit Normalize(const Config& config) : mean_(config.numbers("mean")), std_(config.numbers("std")) {
    if (mean_.empty() || std_.empty()) invalid("normalize has a mean and a std");
  }

  Form output(const Form& form) const override {
    for (const auto* numbers : {&mean_, &std_})
      if (numbers->size() != 1 && static_cast<int64_t>(numbers->size()) != form.channels && form.type != Type::file)
        invalid("normalize has " + std::to_string(numbers->size()) + " numbers for images of " +
                std::to_string(form.channels) + " channels");
    return {Type::float32, form.height, form.width, form.channels};
  }
  void line(const Image& image, const Slot*, float* numbers) const override {
    const int64_t channels = output(image.form).channels;
    fill_line(numbers, channels, 1.0f, 0.0f, -INFINITE, INFINITE);
    for (int64_t channel = 0; channel < channels; ++channel) {
      const double mean = mean_[mean_.size() == 1 ? 0 : channel], std = std_[std_.size() == 1 ? 0 : channel];
      numbers[channel] = static_cast<float>(1.0 / (static_cast<double>(image.form.full()) * std));
      numbers[channels + channel] = static_cast<float>(-mean / std);
    }
  }

 private:
  std::vector<double> mean_, std_;
};

const Registered<Invert> invert{"invert"};
const Registered<Solarize> solarize{"solarize"};
const Registered<Posterize> posterize{"posterize"};
const Registered<Gamma> gamma_stage{"gamma"};
const Registered<RandomBrightness> random_brightness{"random_brightness"};
const Registered<Autocontrast> autocontrast{"autocontrast"};
const Registered<RandomContrast> random_contrast{"random_contrast"};
const Registered<Equalize> equalize{"equalize"};
const Registered<GaussianNoise> gaussian_noise{"gaussian_noise"};
const Registered<Rescale> rescale{"rescale"};
const Registered<Cast> cast{"cast"};
const Registered<Normalize> normalize{"normalize"};

}  // namespace

}  // namespace tfhet
