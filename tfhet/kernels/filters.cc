// Stages that compute each pixel from the pixels around it: dilate, erode, gaussian_blur and sharpen.

#include "filters.h"

#include "morphology.h"
#include "stage.h"

namespace tfhet {

namespace {

// Replaces each pixel by the largest or the smallest value of a square around it.
class Morphology : public Stage {
 public:
  Morphology(const Config& config, const char* name, bool largest)
      : name_(name), size_(config.integer("size")), largest_(largest) {
    if (size_ < 1) invalid("size is at least 1");
  }

  Form output(const Form& form) const override {
    check_pixels(form, name_);
    return form;
  }
  Image apply(const Image& image, Arena& arena, const Slot*) const override {
    if (size_ == 1) return image;
    Image result = arena.make(image.form, image);
    image.typed([&](auto* from) {
      using T = std::remove_pointer_t<decltype(from)>;
      morphology::morphology<T>(from, result.values<T>(), image.form.height, image.form.width, image.form.channels, size_,
                                largest_);
    });
    return result;
  }

 private:
  const char* const name_;
  const int64_t size_;
  const bool largest_;
};

struct Dilate : Morphology {
  explicit Dilate(const Config& config) : Morphology(config, "dilate", true) {}
};

struct Erode : Morphology {
  explicit Erode(const Config& config) : Morphology(config, "erode", false) {}
};

// The constants of tfhet/stages/filters.py.
constexpr float CUT_MARGIN = 0x1p-13f;
constexpr double NEGLIGIBLE = 0x1p-25;
constexpr int64_t LARGEST_FILTER = 1 << 22;

// Makes the sum of the weights 1.
void normalise(std::vector<double>& weights) {
  double sum = 0.0;
  for (const double weight : weights) sum += weight;
  for (double& weight : weights) weight /= sum;
}

// Returns the weights of a Gaussian, with 0 for negligible ones at the ends. For an even size the centre is left of the
// middle.
std::vector<float> gaussian(int64_t size, double sigma) {
  if (size < 1 || size > LARGEST_FILTER || !(sigma > 0.0)) invalid("stage gaussian_blur: size and sigma are positive");
  std::vector<double> weights;
  for (int64_t offset = -((size - 1) / 2); offset <= size / 2; ++offset)
    weights.push_back(std::exp(-static_cast<double>(offset * offset) / (2.0 * (sigma * sigma))));
  normalise(weights);
  for (int64_t end = 0; end < (size - 1) / 2; ++end) {
    if (weights[end] + weights[size - 1 - end] >= NEGLIGIBLE) break;
    weights[end] = weights[size - 1 - end] = 0.0;
  }
  normalise(weights);
  return std::vector<float>(weights.begin(), weights.end());
}

class GaussianBlur : public Stage {
 public:
  explicit GaussianBlur(const Config& config)
      : size_(config.integer("size")),
        padding_(filters::padding_of(config.text("padding"))),
        weights_(gaussian(size_, config.number("sigma"))),
        filter_(weights_, weights_, padding_, CUT_MARGIN) {}

  Form output(const Form& form) const override {
    const int64_t reach = padding_ == filters::Padding::reflect     ? size_ / 2 + 1
                          : padding_ == filters::Padding::symmetric ? std::max<int64_t>(size_ / 2, 1)
                                                                    : 1;
    check_pixels(form, "gaussian_blur", reach);
    return form;
  }
  Image apply(const Image& image, Arena& arena, const Slot*) const override {
    Image result = arena.make(image.form, image);
    image.typed([&](auto* from) {
      using T = std::remove_pointer_t<decltype(from)>;
      filter_.image(from, image.form.height, image.form.width, image.form.channels, result.values<T>());
    });
    return result;
  }

 private:
  const int64_t size_;
  const filters::Padding padding_;
  const std::vector<float> weights_;
  const filters::Separable filter_;
};

class Sharpen : public Stage {
 public:
  explicit Sharpen(const Config& config) : softening_((1.0f - config.single("amount")) / 13.0f) {}

  Form output(const Form& form) const override {
    check_pixels(form, "sharpen", 2);
    return form;
  }
  Image apply(const Image& image, Arena& arena, const Slot*) const override {
    Image result = arena.make(image.form, image);
    image.typed([&](auto* from) {
      using T = std::remove_pointer_t<decltype(from)>;
      filters::sharpen<T>(from, image.form.height, image.form.width, image.form.channels, softening_, result.values<T>());
    });
    return result;
  }

 private:
  const float softening_;
};

const Registered<Dilate> dilate{"dilate"};
const Registered<Erode> erode{"erode"};
const Registered<GaussianBlur> gaussian_blur{"gaussian_blur"};
const Registered<Sharpen> sharpen{"sharpen"};

}  // namespace

}  // namespace tfhet
