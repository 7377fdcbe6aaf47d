// Stages that bring images to one size: tfhet/stages/resize.py specifies them.

#include "geometry.h"

namespace tfhet {

namespace {

// How each place of a result along one axis is a weighted sum of `taps` pixels, with the arithmetic of TensorFlow's
// kernels. Pixels that a place does not need have weight 0.
struct Weighted {
  int64_t size, taps;
  std::vector<int32_t> from, count;  // [size, taps] pixels; [size] how many of them count
  std::vector<float> weights;        // [size, taps]

  Weighted(int64_t size, int64_t taps) : size(size), taps(taps), from(size * taps), count(size), weights(size * taps) {}
};

// The mean of the covered pixels, before the division by the covered length.
Weighted area_of(int64_t length, int64_t size) {
  const float scale = static_cast<float>(length) / static_cast<float>(size);
  Weighted result(size, static_cast<int64_t>(std::ceil(scale)) + 2);
  for (int64_t place = 0; place < size; ++place) {
    const float begin = static_cast<float>(place) * scale, end = static_cast<float>(place + 1) * scale;
    const int64_t first = static_cast<int64_t>(std::floor(begin));
    const int64_t taps = std::clamp<int64_t>(static_cast<int64_t>(std::ceil(end)) - first, 1, result.taps);
    for (int64_t i = 0; i < taps; ++i) {
      const float left = static_cast<float>(first + i), right = static_cast<float>(first + i + 1);
      float weight;
      if (left < begin)
        weight = right > end ? scale : right - begin;
      else
        weight = right > end ? end - left : 1.0f;
      result.from[place * result.taps + i] = static_cast<int32_t>(std::clamp<int64_t>(first + i, 0, length - 1));
      result.weights[place * result.taps + i] = weight;
    }
    result.count[place] = static_cast<int32_t>(taps);
  }
  return result;
}

// The Keys cubic with a = -0.5 at distances in 1024ths of a pixel; pixels outside the image do not count.
Weighted cubic_of(int64_t length, int64_t size) {
  constexpr double A = -0.5;
  constexpr int64_t STEPS = 1024;
  const auto near = [](int64_t steps) {
    const float x = static_cast<float>(static_cast<double>(steps) / STEPS);
    return static_cast<float>(((A + 2) * x - (A + 3)) * x * x + 1);
  };
  const auto far = [](int64_t steps) {
    const float x = static_cast<float>(static_cast<float>(static_cast<double>(steps) / STEPS) + 1.0);
    return static_cast<float>(((A * x - 5 * A) * x + 8 * A) * x - 4 * A);
  };
  const float scale = static_cast<float>(length) / static_cast<float>(size);
  Weighted result(size, 4);
  for (int64_t place = 0; place < size; ++place) {
    const float centre = (static_cast<float>(place) + 0.5f) * scale - 0.5f;
    const int64_t first = static_cast<int64_t>(std::floor(centre));
    const int64_t steps = std::lrintf((centre - static_cast<float>(first)) * static_cast<float>(STEPS));
    float* weights = &result.weights[4 * place];
    weights[0] = far(steps);
    weights[1] = near(steps);
    weights[2] = near(STEPS - steps);
    weights[3] = far(STEPS - steps);
    for (int64_t i = 0; i < 4; ++i) {
      const int64_t pixel = first - 1 + i, inside = std::clamp<int64_t>(pixel, 0, length - 1);
      if (pixel != inside) weights[i] = 0.0f;
      result.from[4 * place + i] = static_cast<int32_t>(inside);
    }
    const float sum = weights[0] + weights[1] + weights[2] + weights[3];
    if (std::abs(sum) >= 1000.0f * std::numeric_limits<float>::min()) {
      const float inverse = 1.0f / sum;
      for (int64_t i = 0; i < 4; ++i) weights[i] *= inverse;
    }
    result.count[place] = 4;
  }
  return result;
}

void store(float value, float* to) { *to = value; }
void store(float value, uint8_t* to) {
  *to = static_cast<uint8_t>(std::min(std::max(std::nearbyint(value), 0.0f), 255.0f));
}

// The mean along each row first and then along the columns, as TensorFlow sums up. Channels: 0 for any number.
template <int Channels, class T>
void resize_area(const T* from, const Form& form, const Weighted& y, const Weighted& x, T* to) {
  const int64_t channels = Channels ? Channels : form.channels, line = form.width * channels, width = x.size * channels;
  const float down = static_cast<float>(form.height) / static_cast<float>(y.size);
  const float across = static_cast<float>(form.width) / static_cast<float>(x.size);
  const float share = static_cast<float>(1.0 / static_cast<double>(down * across));
  float* sums = scratch<float, 34>(width);
  float own[Channels ? Channels : 1];  // stays in registers
  float* sum = Channels ? own : scratch<float, 36>(channels);
  for (int64_t row = 0; row < y.size; ++row, to += width) {
    std::fill_n(sums, width, 0.0f);
    for (int64_t k = 0; k < y.count[row]; ++k) {
      const T* pixels = from + y.from[row * y.taps + k] * line;
      const float weight = y.weights[row * y.taps + k];
      for (int64_t column = 0; column < x.size; ++column) {
        const int32_t* places = &x.from[column * x.taps];
        const float* weights = &x.weights[column * x.taps];
        for (int64_t c = 0; c < channels; ++c) sum[c] = static_cast<float>(pixels[places[0] * channels + c]) * weights[0];
        for (int64_t i = 1; i < x.count[column]; ++i)
          for (int64_t c = 0; c < channels; ++c)
            sum[c] += static_cast<float>(pixels[places[i] * channels + c]) * weights[i];
        for (int64_t c = 0; c < channels; ++c) sums[column * channels + c] += sum[c] * weight;
      }
    }
    for (int64_t i = 0; i < width; ++i) store(sums[i] * share, to + i);
  }
}

// Along the columns first and then along the rows.
template <class T>
void resize_cubic(const T* from, const Form& form, const Weighted& y, const Weighted& x, T* to) {
  const int64_t channels = form.channels, line = form.width * channels;
  float* between = scratch<float, 34>(line);
  for (int64_t row = 0; row < y.size; ++row) {
    const T* rows[4];
    for (int64_t i = 0; i < 4; ++i) rows[i] = from + y.from[4 * row + i] * line;
    const float* w = &y.weights[4 * row];
    for (int64_t i = 0; i < line; ++i)
      between[i] = static_cast<float>(rows[0][i]) * w[0] + static_cast<float>(rows[1][i]) * w[1] +
                   static_cast<float>(rows[2][i]) * w[2] + static_cast<float>(rows[3][i]) * w[3];
    for (int64_t column = 0; column < x.size; ++column) {
      const int32_t* places = &x.from[4 * column];
      const float* v = &x.weights[4 * column];
      for (int64_t c = 0; c < channels; ++c)
        store(between[places[0] * channels + c] * v[0] + between[places[1] * channels + c] * v[1] +
                  between[places[2] * channels + c] * v[2] + between[places[3] * channels + c] * v[3],
              to++);
    }
  }
}

template <class T>
void resize_nearest(const T* from, const Form& form, int64_t height, int64_t width, T* to) {
  const auto nearest = [](int64_t place, int64_t length, int64_t size) {
    const float scale = static_cast<float>(length) / static_cast<float>(size);
    const float centre = (static_cast<float>(place) + 0.5f) * scale;
    return std::clamp<int64_t>(static_cast<int64_t>(std::floor(centre)), 0, length - 1);
  };
  int64_t* columns = scratch<int64_t, 35>(width);
  for (int64_t x = 0; x < width; ++x) columns[x] = nearest(x, form.width, width) * form.channels;
  for (int64_t y = 0; y < height; ++y) {
    const T* row = from + nearest(y, form.height, height) * form.width * form.channels;
    for (int64_t x = 0; x < width; ++x)
      for (int64_t c = 0; c < form.channels; ++c) *to++ = row[columns[x] + c];
  }
}

enum class Method { bilinear, nearest, area, bicubic };

class Resize : public WindowStage {
 public:
  explicit Resize(const Config& config) : WindowStage(config, true) {
    const std::string& method = config.text("method");
    if (method == "bilinear") method_ = Method::bilinear;
    else if (method == "nearest") method_ = Method::nearest;
    else if (method == "area") method_ = Method::area;
    else if (method == "bicubic") method_ = Method::bicubic;
    else throw Failure{Code::internal, "stage resize: unknown method " + method};
  }

  Image apply(const Image& image, Arena& arena, const Slot* drawn) const override {
    const Form& form = image.form;
    if (form.values() < 1) invalid("images without pixels");
    if (output(form) == form) return image;
    if (method_ == Method::bilinear) return WindowStage::apply(image, arena, drawn);
    Image result = arena.make(output(form), image);
    image.typed([&](auto* from) {
      using T = std::remove_pointer_t<decltype(from)>;
      T* to = result.values<T>();
      const auto area = form.channels == 3   ? resize_area<3, T>
                        : form.channels == 1 ? resize_area<1, T>
                                             : resize_area<0, T>;
      if (method_ == Method::nearest)
        resize_nearest<T>(from, form, height, width, to);
      else if (method_ == Method::area)
        area(from, form, area_of(form.height, height), area_of(form.width, width), to);
      else
        resize_cubic<T>(from, form, cubic_of(form.height, height), cubic_of(form.width, width), to);
    });
    return result;
  }
  // Half a pixel lies between a centre of a pixel and the edge, as in tf.image.resize.
  Transform transform(const Form& form, const Slot*) const override {
    const float down = static_cast<float>(form.height) / static_cast<float>(height);
    const float across = static_cast<float>(form.width) / static_cast<float>(width);
    return {{across, 0.0f, (across - 1.0f) / 2.0f, 0.0f, down, (down - 1.0f) / 2.0f, 0.0f, 0.0f}};
  }
  Part part(const Form& form, const Slot*) const override {
    return {0.0f, 0.0f, static_cast<float>(form.height), static_cast<float>(form.width)};
  }

 private:
  Method method_;
};

class ResizedCenterCrop : public WindowStage {
 public:
  explicit ResizedCenterCrop(const Config& config) : WindowStage(config, false), shorter_(config.integer("shorter")) {
    if (height > shorter_ || width > shorter_ || shorter_ > INT32_MAX)
      invalid("stage resized_center_crop: height and width are 1 to shorter, " + std::to_string(shorter_) + ", not " +
              std::to_string(height) + ", " + std::to_string(width));
  }

  Part part(const Form& form, const Slot*) const override {
    const int64_t shorter = std::min(form.height, form.width);
    if (shorter < 1) invalid("images without pixels");
    const Side rows(form.height, shorter, shorter_, height), columns(form.width, shorter, shorter_, width);
    return {rows.first, columns.first, rows.length, columns.length};
  }

 private:
  // The part along one axis.
  struct Side {
    float first, length;

    Side(int64_t size, int64_t shorter, int64_t wanted, int64_t shown) {
      const int64_t resized = wanted * size / shorter;
      const float step = static_cast<float>(size) / static_cast<float>(resized);
      // Halves are rounded to even, as by Python's round.
      first = std::nearbyint(static_cast<float>(resized - shown) / 2.0f) * step;
      length = static_cast<float>(shown) * step;
    }
  };

  int64_t shorter_;
};

class RandomResizedCrop : public WindowStage {
 public:
  explicit RandomResizedCrop(const Config& config)
      : WindowStage(config, true),
        scale_low_(config.number("scale_low")),
        scale_high_(config.number("scale_high")),
        ratio_low_(config.number("ratio_low")),
        ratio_high_(config.number("ratio_high")) {
    if (!(ratio_low_ > 0.0) || !(ratio_high_ > 0.0)) invalid("stage random_resized_crop: ratios are above 0");
  }

  std::vector<Parameter> parameters() const override { return {{"box", 'i', 4, true}}; }
  // Ten boxes; the first that fits is taken.
  void draw(Key key, const Form& form, Slot* to) const override {
    const float rows = static_cast<float>(form.height), columns = static_cast<float>(form.width);
    for (uint64_t i = 0; i < TRIES; ++i) {
      const float area = key.uniform(i, scale_low_, scale_high_) * (rows * columns);
      const float log_ratio = key.uniform(TRIES + i, std::log(ratio_low_), std::log(ratio_high_));
      const float ratio = static_cast<float>(std::exp(static_cast<double>(log_ratio)));
      const float height = std::nearbyint(std::sqrt(area / ratio)), width = std::nearbyint(std::sqrt(area * ratio));
      if (!(height >= 1.0f && height <= rows && width >= 1.0f && width <= columns)) continue;
      const auto place = [&](uint64_t draw, float room) { return std::floor(key.uniform(draw) * (room + 1.0f)); };
      return write(place(2 * TRIES, rows - height), place(2 * TRIES + 1, columns - width), height, width, to);
    }
    // None fits: the central box that comes closest to the ratios.
    const float height = std::min(rows, std::max(1.0f, std::nearbyint(columns / static_cast<float>(ratio_low_))));
    const float width = std::min(columns, std::max(1.0f, std::nearbyint(rows * static_cast<float>(ratio_high_))));
    write(std::floor((rows - height) / 2.0f), std::floor((columns - width) / 2.0f), height, width, to);
  }
  Part part(const Form&, const Slot* drawn) const override {
    return {drawn[0].single(), drawn[1].single(), drawn[2].single(), drawn[3].single()};
  }

 private:
  static constexpr uint64_t TRIES = 10;

  static void write(float top, float left, float height, float width, Slot* to) {
    to[0].number = top;
    to[1].number = left;
    to[2].number = height;
    to[3].number = width;
  }

  double scale_low_, scale_high_, ratio_low_, ratio_high_;
};

const Registered<Resize> resize_stage{"resize"};
const Registered<ResizedCenterCrop> resized_center_crop{"resized_center_crop"};
const Registered<RandomResizedCrop> random_resized_crop{"random_resized_crop"};

}  // namespace

}  // namespace tfhet
