// Stages that cut windows out of images or add a border: tfhet/stages/crop.py specifies them.

#include "geometry.h"

namespace tfhet {

namespace {

constexpr int64_t LONGEST = 1 << 22;  // rows or columns, as in a sampling

// A length that the configuration sets.
int64_t length_of(const Config& config, const char* key) {
  const double length = config.number(key);
  if (!(length >= 0.0 && length <= LONGEST))
    invalid("stage " + config.name + ": " + key + " is from 0 to " + std::to_string(LONGEST));
  return static_cast<int64_t>(length);
}

std::string product(int64_t height, int64_t width) { return std::to_string(height) + " x " + std::to_string(width); }

// Returns the image with the rows and columns of `rows`, [height], and `columns`, [width]: places in the image.
Image gathered(const Image& image, Arena& arena, const int32_t* rows, int64_t height, const int32_t* columns,
               int64_t width) {
  struct Run {  // columns that are neighbours in both images
    int64_t to, from, count;
  };
  Run* runs = scratch<Run, 31>(width);
  int64_t count = 0;
  for (int64_t x = 0; x < width; ++x) {
    if (count > 0 && columns[x] == columns[x - 1] + 1)
      ++runs[count - 1].count;
    else
      runs[count++] = {x, columns[x], 1};
  }
  const size_t pixel = image.form.channels * (image.form.type == Type::float32 ? sizeof(float) : 1);
  Image result = arena.make({image.form.type, height, width, image.form.channels}, image);
  uint8_t* to = result.values<uint8_t>();
  for (int64_t y = 0; y < height; ++y, to += width * pixel) {
    const uint8_t* from = image.values<uint8_t>() + rows[y] * image.form.width * pixel;
    for (int64_t i = 0; i < count; ++i)
      std::memcpy(to + runs[i].to * pixel, from + runs[i].from * pixel, runs[i].count * pixel);
  }
  return result;
}

// Writes the places of `count` pixels from place `first` on in an image of `length` pixels that is mirrored at its
// edges without repeating them, as by numpy.pad(mode='reflect').
void mirrored(int64_t first, int64_t count, int64_t length, int32_t* to) {
  const int64_t period = 2 * (length - 1);
  for (int64_t i = 0; i < count; ++i) {
    int64_t place = 0;
    if (period > 0) {
      place = (first + i) % period;
      if (place < 0) place += period;
      if (place >= length) place = period - place;
    }
    to[i] = static_cast<int32_t>(place);
  }
}

// A stage that adds a border of some kind. A sampling has all kinds but `reflect`.
class Bordered : public Stage {
 protected:
  explicit Bordered(const Config& config) : is_reflect(config.text("mode") == "reflect") {
    const std::string& mode = config.text("mode");
    if (is_reflect) return;
    filling = Filling(mode == "edge" ? "nearest" : mode == "symmetric" ? "reflect" : mode, config.number("value"));
  }

  // Raises Failure unless the image, and a result of height x width pixels, can be handled.
  void check(const Image& image, int64_t height, int64_t width) const {
    if (image.form.values() < 1) invalid("images without pixels");
    if (height > LONGEST || width > LONGEST) invalid("results of more than 2**22 rows or columns");
  }

  bool is_reflect;
  Filling filling;  // of the other kinds
};

class Pad : public Bordered {
 public:
  explicit Pad(const Config& config)
      : Bordered(config),
        rows_{length_of(config, "top"), length_of(config, "bottom"), length_of(config, "height"), "rows"},
        columns_{length_of(config, "left"), length_of(config, "right"), length_of(config, "width"), "columns"} {}

  Form output(const Form& form) const override {
    return {form.type, rows_.padded(form.height), columns_.padded(form.width), form.channels};
  }
  Image apply(const Image& image, Arena& arena, const Slot*) const override {
    const Form form = output(image.form);
    check(image, form.height, form.width);
    const int64_t top = rows_.first(image.form.height), left = columns_.first(image.form.width);
    if (!is_reflect)
      return sampled(image, arena, translation(static_cast<float>(top), static_cast<float>(left)), filling, form.height,
                     form.width);
    int32_t* rows = scratch<int32_t, 32>(form.height);
    int32_t* columns = scratch<int32_t, 33>(form.width);
    mirrored(-top, form.height, image.form.height, rows);
    mirrored(-left, form.width, image.form.width, columns);
    return gathered(image, arena, rows, form.height, columns, form.width);
  }

 private:
  struct Border {
    int64_t before, after;
    int64_t wanted;  // length of the result with the image in the middle; 0 if the other two count
    const char* what;

    int64_t padded(int64_t length) const {
      if (!wanted) return before + length + after;
      if (wanted < length)
        invalid("stage pad: images with " + std::to_string(length) + " " + what + " cannot be padded to " +
                std::to_string(wanted) + ": crop them before");
      return wanted;
    }
    int64_t first(int64_t length) const { return wanted ? (wanted - length) / 2 : before; }
  };

  Border rows_, columns_;
};

class CenterCrop : public Stage {
 public:
  explicit CenterCrop(const Config& config) : height_(length_of(config, "height")), width_(length_of(config, "width")) {}

  Form output(const Form& form) const override {
    const int64_t shorter = std::min(form.height, form.width);
    const int64_t height = height_ ? height_ : shorter, width = width_ ? width_ : shorter;
    if (height > form.height || width > form.width)
      invalid("stage center_crop: " + product(height, width) + " pixels are more than the " +
              product(form.height, form.width) + " there are: pad before");
    return {form.type, height, width, form.channels};
  }
  Image apply(const Image& image, Arena& arena, const Slot*) const override {
    const Form form = output(image.form);
    if (form == image.form) return image;
    int32_t* rows = scratch<int32_t, 32>(form.height);
    int32_t* columns = scratch<int32_t, 33>(form.width);
    mirrored((image.form.height - form.height) / 2, form.height, image.form.height, rows);
    mirrored((image.form.width - form.width) / 2, form.width, image.form.width, columns);
    return gathered(image, arena, rows, form.height, columns, form.width);
  }

 private:
  int64_t height_, width_;
};

class RandomCrop : public Bordered {
 public:
  explicit RandomCrop(const Config& config)
      : Bordered(config),
        height_(length_of(config, "height")),
        width_(length_of(config, "width")),
        padding_(length_of(config, "padding")) {}

  Form output(const Form& form) const override {
    const int64_t height = height_ ? height_ : form.height, width = width_ ? width_ : form.width;
    const int64_t rows = form.height + 2 * padding_, columns = form.width + 2 * padding_;
    if (height > rows || width > columns)
      invalid("stage random_crop: " + product(height, width) + " pixels do not fit into " + product(rows, columns) +
              ": give more padding");
    return {form.type, height, width, form.channels};
  }
  std::vector<Parameter> parameters() const override { return {{"top", 'i'}, {"left", 'i'}}; }
  void draw(Key key, const Form& form, Slot* to) const override {
    const Form result = output(form);
    to[0].number = key.below(0, form.height + 2 * padding_ - result.height + 1);
    to[1].number = key.below(1, form.width + 2 * padding_ - result.width + 1);
  }
  Image apply(const Image& image, Arena& arena, const Slot* drawn) const override {
    const Form form = output(image.form);
    check(image, form.height, form.width);
    if (!is_reflect) {
      const auto moved = [&](const Slot& slot) { return static_cast<float>(static_cast<double>(padding_) - slot.number); };
      return sampled(image, arena, translation(moved(drawn[0]), moved(drawn[1])), filling, form.height, form.width);
    }
    int32_t* rows = scratch<int32_t, 32>(form.height);
    int32_t* columns = scratch<int32_t, 33>(form.width);
    places(drawn[0].number, form.height, image.form.height, rows);
    places(drawn[1].number, form.width, image.form.width, columns);
    return gathered(image, arena, rows, form.height, columns, form.width);
  }

 private:
  // Places in the image of `count` pixels from place `first` of the padded image on, whose edge is repeated beyond it.
  void places(double first, int64_t count, int64_t length, int32_t* to) const {
    const int64_t end = length + padding_;
    const double least = -static_cast<double>(count), most = static_cast<double>(end + padding_);
    const int64_t from = static_cast<int64_t>(first > least ? std::min(first, most) : least) - padding_;
    for (int64_t i = 0; i < count; ++i)
      mirrored(std::clamp(from + i, -padding_, end - 1), 1, length, to + i);
  }

  int64_t height_, width_, padding_;
};

const Registered<Pad> pad{"pad"};
const Registered<CenterCrop> center_crop{"center_crop"};
const Registered<RandomCrop> random_crop{"random_crop"};

}  // namespace

}  // namespace tfhet
