// Stages of images and labels: one_hot, which leaves images unchanged; mixup and cutmix, which mix each image with the
// next one of the batch. Python changes the labels.

#include "partner.h"

#include <cmath>

#include "stage.h"

namespace tfhet {

namespace {

class OneHot : public Stage {
 public:
  explicit OneHot(const Config&) {}
  Image apply(const Image& image, Arena&, const Slot*) const override { return image; }
};

class WithPartner : public Stage {
 public:
  bool has_partner() const override { return true; }
  Image apply(const Image& image, Arena& arena, const Slot* drawn) const override {
    return paired(image, image, arena, drawn);
  }

 protected:
  // Number of different shares, all equally likely: `shares` has the quantiles of Beta(alpha, alpha).
  static constexpr int64_t SHARES = 4096;

  static std::vector<double> shares(const Config& config) {
    const std::vector<double>& shares = config.numbers("shares");
    if (shares.size() != SHARES) throw Failure{Code::internal, "stage " + config.name + ": shares are not 4096 numbers"};
    return shares;
  }
};

class Mixup : public WithPartner {
 public:
  explicit Mixup(const Config& config) {
    for (const double share : shares(config)) shares_.push_back(static_cast<float>(share));
  }

  std::vector<Parameter> parameters() const override { return {{"share", 'f'}}; }
  void draw(Key key, const Form&, Slot* to) const override { to[0].number = shares_[key.below(0, SHARES)]; }
  Form output(const Form& form) const override {
    check_pixels(form, "mixup");
    return form;
  }
  Image paired(const Image& image, const Image& other, Arena& arena, const Slot* drawn) const override {
    Image result = arena.make(image.form, image);
    image.typed([&](auto* own) {
      using T = std::remove_pointer_t<decltype(own)>;
      partner::blend<T>(own, other.values<T>(), drawn[0].single(), image.form.values(), result.values<T>());
    });
    return result;
  }

 private:
  std::vector<float> shares_;
};

class Cutmix : public WithPartner {
 public:
  explicit Cutmix(const Config& config) : sides_(shares(config)) {
    for (double& side : sides_) side = std::sqrt(side);
  }

  std::vector<Parameter> parameters() const override {
    return {{"top", 'i'}, {"bottom", 'i'}, {"left", 'i'}, {"right", 'i'}, {"share", 'f'}};
  }
  void draw(Key key, const Form& form, Slot* to) const override {
    const double share = sides_[key.below(0, SHARES)];
    int32_t lengths[2];
    for (int axis = 0; axis < 2; ++axis) {
      const int64_t length = axis == 0 ? form.height : form.width;
      const float pixels = static_cast<float>(length);
      const int64_t side = static_cast<int64_t>(share * static_cast<double>(length));
      const int64_t centre = static_cast<int64_t>(std::min(key.uniform(1 + axis) * pixels, pixels - 1.0f));
      const int64_t begin = std::max<int64_t>(centre - side / 2, 0);
      const int64_t end = std::min<int64_t>(centre - side / 2 + side, length);
      to[2 * axis].number = static_cast<double>(begin);
      to[2 * axis + 1].number = static_cast<double>(end);
      lengths[axis] = static_cast<int32_t>(end - begin);
    }
    const float pixels = static_cast<float>(static_cast<int64_t>(lengths[0]) * lengths[1]);
    to[4].number = pixels * static_cast<float>(1.0 / static_cast<double>(form.pixels()));
  }
  Form output(const Form& form) const override {
    check_pixels(form, "cutmix");
    return form;
  }
  Image paired(const Image& image, const Image& other, Arena& arena, const Slot* drawn) const override {
    Image result = arena.make(image.form, image);
    int32_t rectangle[4];
    for (int i = 0; i < 4; ++i) rectangle[i] = static_cast<int32_t>(drawn[i].integer());
    image.typed([&](auto* own) {
      using T = std::remove_pointer_t<decltype(own)>;
      partner::paste<T>(own, other.values<T>(), image.form.height, image.form.width, image.form.channels, rectangle,
                        result.values<T>());
    });
    return result;
  }

 private:
  std::vector<double> sides_;  // of the square roots of the shares
};

const Registered<OneHot> one_hot{"one_hot"};
const Registered<Mixup> mixup{"mixup"};
const Registered<Cutmix> cutmix{"cutmix"};

}  // namespace

}  // namespace tfhet
