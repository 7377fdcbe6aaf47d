// Stages that move the content of images: tfhet/stages/motion.py specifies them, and tfhet/stages/projection.py the
// transforms.

#include "geometry.h"

namespace tfhet {

namespace {

constexpr double PI = 3.14159265358979323846;

// Zooms about the centre; above 1 zooms out.
Transform zooming(float zoom, const Form& form) {
  const float x = last(form.width) / 2.0f * (1.0f - zoom), y = last(form.height) / 2.0f * (1.0f - zoom);
  return {{zoom, 0.0f, x, 0.0f, zoom, y, 0.0f, 0.0f}};
}

// Shears about the centre. shear: the columns by which a row's input lies right of the input of the row above.
Transform shearing(float shear, const Form& form) {
  return {{1.0f, shear, last(form.height) / 2.0f * -shear, 0.0f, 1.0f, 0.0f, 0.0f, 0.0f}};
}

// Moves the content by fractions of the size.
Transform moving(float down, float right, const Form& form) {
  return translation(down * static_cast<float>(form.height), right * static_cast<float>(form.width));
}

// Scales, shears and rotates about the centre, then moves. scale: above 1 enlarges.
Transform affine(float angle, float down, float right, float scale, float shear, const Form& form) {
  const Transform shaped = composed(zooming(1.0f / scale, form), shearing(shear, form));
  return composed(composed(shaped, rotation(angle, form)), moving(down, right, form));
}

class RandomFlip : public Geometric {
 public:
  explicit RandomFlip(const Config& config)
      : horizontal_(config.flag("horizontal")), vertical_(config.flag("vertical")) {
    if (!horizontal_ && !vertical_) invalid("stage random_flip: neither horizontal nor vertical is set: omit the stage");
  }

  std::vector<Parameter> parameters() const override {
    std::vector<Parameter> all;
    if (horizontal_) all.push_back({"flip_horizontal", 'b'});
    if (vertical_) all.push_back({"flip_vertical", 'b'});
    return all;
  }
  void draw(Key key, const Form&, Slot* to) const override {
    if (horizontal_) (to++)->number = key.bernoulli(0);
    if (vertical_) to->number = key.bernoulli(1);
  }
  Image apply(const Image& image, Arena& arena, const Slot* drawn) const override {
    return across(drawn) || upright(drawn) ? Geometric::apply(image, arena, drawn) : image;
  }
  Transform transform(const Form& form, const Slot* drawn) const override {
    const bool x = across(drawn), y = upright(drawn);
    return {{x ? -1.0f : 1.0f, 0.0f, x ? last(form.width) : 0.0f, 0.0f, y ? -1.0f : 1.0f, y ? last(form.height) : 0.0f,
             0.0f, 0.0f}};
  }

 private:
  bool across(const Slot* drawn) const { return horizontal_ && drawn[0].flag(); }
  bool upright(const Slot* drawn) const { return vertical_ && drawn[horizontal_ ? 1 : 0].flag(); }

  bool horizontal_, vertical_;
};

// A stage whose fields state how to fill the parts beyond the edge.
class Filled : public Geometric {
 protected:
  explicit Filled(const Config& config) { filling = Filling(config.text("fill_mode"), config.number("fill_value")); }
};

class RandomShear : public Filled {
 public:
  explicit RandomShear(const Config& config) : Filled(config), factor_(config.number("factor")) {}

  std::vector<Parameter> parameters() const override { return {{"shear", 'f'}}; }
  void draw(Key key, const Form&, Slot* to) const override { to->number = key.uniform(0, -factor_, factor_); }
  Transform transform(const Form& form, const Slot* drawn) const override { return shearing(drawn->single(), form); }

 private:
  double factor_;
};

class RandomTranslation : public Filled {
 public:
  explicit RandomTranslation(const Config& config)
      : Filled(config), height_(config.number("height_factor")), width_(config.number("width_factor")) {}

  std::vector<Parameter> parameters() const override { return {{"down", 'f'}, {"right", 'f'}}; }
  void draw(Key key, const Form&, Slot* to) const override {
    to[0].number = key.uniform(0, -height_, height_);
    to[1].number = key.uniform(1, -width_, width_);
  }
  Transform transform(const Form& form, const Slot* drawn) const override {
    return moving(drawn[0].single(), drawn[1].single(), form);
  }

 private:
  double height_, width_;
};

// A random stage that mirrors the image at its edges.
class Reflected : public Geometric {
 protected:
  Reflected() { filling = Filling("reflect", 0.0); }
};

class RandomRotation : public Reflected {
 public:
  explicit RandomRotation(const Config& config) : most_(config.number("factor") * 2.0 * PI) {}

  std::vector<Parameter> parameters() const override { return {{"angle", 'f'}}; }
  void draw(Key key, const Form&, Slot* to) const override { to->number = key.uniform(0, -most_, most_); }
  Transform transform(const Form& form, const Slot* drawn) const override { return rotation(drawn->single(), form); }

 private:
  double most_;  // radians
};

class RandomZoom : public Reflected {
 public:
  explicit RandomZoom(const Config& config) : factor_(config.number("factor")) {}

  std::vector<Parameter> parameters() const override { return {{"zoom", 'f'}}; }
  void draw(Key key, const Form&, Slot* to) const override { to->number = key.uniform(0, 1.0 - factor_, 1.0 + factor_); }
  Transform transform(const Form& form, const Slot* drawn) const override { return zooming(drawn->single(), form); }

 private:
  double factor_;
};

double radians(double degrees) { return degrees * (PI / 180.0); }

class Affine : public Filled {
 public:
  explicit Affine(const Config& config)
      : Filled(config),
        angle_(static_cast<float>(radians(config.number("degrees")))),
        down_(config.single("down")),
        right_(config.single("right")),
        scale_(config.single("scale")),
        shear_(config.single("shear")) {}

  Transform transform(const Form& form, const Slot*) const override {
    return affine(angle_, down_, right_, scale_, shear_, form);
  }

 private:
  float angle_, down_, right_, scale_, shear_;
};

class RandomAffine : public Filled {
 public:
  explicit RandomAffine(const Config& config)
      : Filled(config),
        angle_(radians(config.number("degrees"))),
        height_(config.number("height_factor")),
        width_(config.number("width_factor")),
        scale_low_(config.number("scale_low")),
        scale_high_(config.number("scale_high")),
        shear_(config.number("shear")) {}

  std::vector<Parameter> parameters() const override {
    return {{"angle", 'f'}, {"down", 'f'}, {"right", 'f'}, {"scale", 'f'}, {"shear", 'f'}};
  }
  void draw(Key key, const Form&, Slot* to) const override {
    to[0].number = key.uniform(0, -angle_, angle_);
    to[1].number = key.uniform(1, -height_, height_);
    to[2].number = key.uniform(2, -width_, width_);
    to[3].number = key.uniform(3, scale_low_, scale_high_);
    to[4].number = key.uniform(4, -shear_, shear_);
  }
  Transform transform(const Form& form, const Slot* drawn) const override {
    return affine(drawn[0].single(), drawn[1].single(), drawn[2].single(), drawn[3].single(), drawn[4].single(), form);
  }

 private:
  double angle_, height_, width_, scale_low_, scale_high_, shear_;
};

const Registered<RandomFlip> random_flip{"random_flip"};
const Registered<RandomShear> random_shear{"random_shear"};
const Registered<RandomTranslation> random_translation{"random_translation"};
const Registered<RandomRotation> random_rotation{"random_rotation"};
const Registered<RandomZoom> random_zoom{"random_zoom"};
const Registered<Affine> affine_stage{"affine"};
const Registered<RandomAffine> random_affine{"random_affine"};

}  // namespace

}  // namespace tfhet
