// randaugment and trivialaugment: for each image, some of fourteen operations, each in one of 31 strengths.
// tfhet/stages/policy.py has a table of them.

#include <cmath>

#include "colour_jitter.h"
#include "filters.h"
#include "geometry.h"
#include "tone_stages.h"

namespace tfhet {

namespace {

enum Operation {
  IDENTITY, SHEAR_X, SHEAR_Y, TRANSLATE_X, TRANSLATE_Y, ROTATE, BRIGHTNESS, CONTRAST, COLOR,
  SHARPNESS, POSTERIZE, SOLARIZE, AUTOCONTRAST, EQUALIZE, OPERATIONS
};

constexpr int BINS = 31;  // number of strengths

// Operations whose strength has either sign.
inline bool is_signed(int64_t operation) { return operation >= SHEAR_X && operation <= SHARPNESS; }

// The largest strength of each kind of operation; bits: the fewest that stay.
struct Largest {
  double shear, move, degrees, change, bits;
};

class Policy : public Stage {
 public:
  std::vector<Parameter> parameters() const override {
    return {{"operation", 'i', layers_, true}, {"strength", 'f', layers_, true}};
  }
  void draw(Key key, const Form&, Slot* to) const override {
    for (int64_t layer = 0; layer < layers_; ++layer) {
      const uint64_t draw = static_cast<uint64_t>(3 * layer);
      const int32_t operation = key.below(draw, OPERATIONS);
      const int64_t place = magnitude_ < 0 ? key.below(draw + 1, BINS) : magnitude_;
      const float strength = strengths_[operation * BINS + place];
      to[layer].number = operation;
      to[layers_ + layer].number = is_signed(operation) && key.bernoulli(draw + 2) ? -strength : strength;
    }
  }
  Form output(const Form& form) const override {
    check_pixels(form, name_, 2);
    check_colours(form, name_);
    return form;
  }
  Image apply(const Image& image, Arena& arena, const Slot* drawn) const override {
    const bool is_float = image.form.type == Type::float32, is_last = arena.is_last;
    arena.is_last = false;
    Image values = image;
    if (is_float) {
      Form form = image.form;
      form.type = Type::uint8;
      values = arena.make(form, image);
      in_levels(image, values.values<uint8_t>());
    }
    const Filling filling("constant", std::nearbyint(fill_value_ / static_cast<double>(image.form.full()) * 255.0));
    for (int64_t layer = 0; layer < layers_; ++layer) {
      arena.is_last = is_last && !is_float && layer + 1 == layers_;
      const int64_t operation = drawn[layer].index(OPERATIONS, "operation");
      values = changed(values, arena, operation, drawn[layers_ + layer].single(), filling);
    }
    arena.is_last = is_last;
    if (!is_float) return values;
    Image result = arena.make(image.form, values);
    as_float(values.values<uint8_t>(), image.form.values(), result.values<float>());
    return result;
  }

 protected:
  // layers: operations for each image. magnitude: place of the strength of all images; -1: it is drawn.
  Policy(const Config& config, const char* name, int64_t layers, int64_t magnitude, const Largest& largest)
      : name_(name),
        layers_(layers),
        magnitude_(magnitude),
        fill_value_(config.number("fill_value")),
        strengths_(OPERATIONS * BINS) {
    if (layers < 1 || magnitude < -1 || magnitude >= BINS)
      throw Failure{Code::internal, std::string("stage ") + name + ": num_layers or magnitude is out of range"};
    for (int bin = 0; bin < BINS; ++bin) {
      const double part = bin == BINS - 1 ? 1.0 : bin * (1.0 / (BINS - 1));
      const auto set = [&](std::initializer_list<Operation> operations, double strength) {
        for (const Operation operation : operations) strengths_[operation * BINS + bin] = static_cast<float>(strength);
      };
      set({SHEAR_X, SHEAR_Y}, largest.shear * part);
      set({TRANSLATE_X, TRANSLATE_Y}, largest.move * part);
      set({BRIGHTNESS, CONTRAST, COLOR, SHARPNESS}, largest.change * part);
      set({ROTATE}, largest.degrees * part);
      set({POSTERIZE}, 8.0 - std::nearbyint((8.0 - largest.bits) * part));
      // Level by level: torchvision's thresholds need not be whole, and the next whole one does the same.
      set({SOLARIZE}, std::ceil(255.0 * (1.0 - part) - 1e-9));
    }
  }

  // Returns a translation in pixels. length: of the image.
  virtual float moved_by(float strength, float) const { return strength; }

 private:
  // The image, uint8, after one operation.
  Image changed(const Image& image, Arena& arena, int64_t operation, float strength, const Filling& filling) const {
    const float factor = 1.0f + strength;
    switch (operation) {
      case SHEAR_X: case SHEAR_Y: case TRANSLATE_X: case TRANSLATE_Y: case ROTATE:
        return sampled(image, arena, transform_of(image.form, operation, strength), filling, image.form.height,
                       image.form.width);
      case BRIGHTNESS:
        return jittered(image, arena, &factor, nullptr, nullptr, nullptr);
      case CONTRAST:
        return jittered(image, arena, nullptr, &factor, nullptr, nullptr);
      case COLOR:
        return jittered(image, arena, nullptr, nullptr, &factor, nullptr);
      case SHARPNESS: {
        Image result = arena.make(image.form, image);
        filters::sharpen(image.values<uint8_t>(), image.form.height, image.form.width, image.form.channels,
                         (1.0f - factor) / 13.0f, result.values<uint8_t>());
        return result;
      }
      case POSTERIZE: case SOLARIZE: {
        uint8_t table[256];
        step(operation == POSTERIZE, strength, table);
        Image result = arena.make(image.form, image);
        tone::lookup(image.values<uint8_t>(), result.values<uint8_t>(), image.form.pixels(), image.form.channels, table, 1);
        return result;
      }
      case AUTOCONTRAST:
        return autocontrasted(image, arena);
      case EQUALIZE:
        return equalized(image, arena);
      default:
        return image;
    }
  }

  Transform transform_of(const Form& form, int64_t operation, float strength) const {
    const auto of = [&](Operation one) { return operation == one ? strength : 0.0f; };
    const float height = static_cast<float>(form.height), width = static_cast<float>(form.width);
    const Transform turned = rotation(of(ROTATE) * static_cast<float>(3.14159265358979323846 / 180.0), form);
    const float shear_x = of(SHEAR_X), shear_y = of(SHEAR_Y);
    const float across = std::nearbyint(moved_by(of(TRANSLATE_X), width));
    const float down = std::nearbyint(moved_by(of(TRANSLATE_Y), height));
    // About the corner of the upper left pixel, half a pixel from its middle.
    return {{turned.t[0], turned.t[1] + shear_x, turned.t[2] + (0.5f * shear_x - across), turned.t[3] + shear_y, turned.t[4],
             turned.t[5] + (0.5f * shear_y - down), 0.0f, 0.0f}};
  }

  // Writes the 256 levels after posterize (strength: bits that stay) or solarize (the threshold).
  static void step(bool is_posterized, float strength, uint8_t* table) {
    // Comparisons so that NaN becomes the low end. Beyond these ends nothing changes.
    const float within = strength > -1.0f ? strength : -1.0f;
    const int32_t number = static_cast<int32_t>(within < 256.0f ? within : 256.0f);
    const int32_t lost = 1 << std::min(std::max(8 - number, 0), 8);
    for (int32_t level = 0; level < 256; ++level)
      table[level] = static_cast<uint8_t>(is_posterized ? level / lost * lost : level >= number ? 255 - level : level);
  }

  const char* const name_;
  const int64_t layers_, magnitude_;
  const double fill_value_;
  std::vector<float> strengths_;  // [OPERATIONS, BINS]
};

class RandAugment : public Policy {
 public:
  explicit RandAugment(const Config& config)
      : Policy(config, "randaugment", config.integer("num_layers"), config.integer("magnitude"),
               {0.3, 150.0 / 331.0, 30.0, 0.9, 4.0}) {}

 protected:
  float moved_by(float strength, float length) const override { return strength * length; }
};

class TrivialAugment : public Policy {
 public:
  explicit TrivialAugment(const Config& config)
      : Policy(config, "trivialaugment", 1, -1, {0.99, 32.0, 135.0, 0.99, 2.0}) {}
};

const Registered<RandAugment> randaugment{"randaugment"};
const Registered<TrivialAugment> trivialaugment{"trivialaugment"};

}  // namespace

}  // namespace tfhet
