// Windows of decoded images brought to one size, mirrored where asked for.

#include "resample.h"

namespace {

using tfhet::Attributes;
using tfhet::Context;
using tfhet::Input;
using tfhet::Window;

template <class T>
struct Rows {
  const T* from;
  int64_t line;
  const T* operator()(int64_t y) const { return from + y * line; }
};

class ResizeWindows {
 public:
  explicit ResizeWindows(const Attributes& attributes)
      : height_(attributes.integer("height")),
        width_(attributes.integer("width")),
        sampling_{attributes.flag("antialias"), attributes.flag("confined")} {
    if (height_ < 1 || width_ < 1) tfhet::invalid("height and width are at least 1");
  }

  void compute(Context& context) const {
    const Input images = context.input(0), windows = context.input(1), flips = context.input(2);
    images.with_rank(4, "images");
    const int64_t batch = images.shape[0];
    // One window, or one flip, may stand for those of all images.
    if (windows.shape != tfhet::Shape{batch, 4} && windows.shape != tfhet::Shape{1, 4})
      tfhet::invalid("windows are [1 or batch, 4]");
    if (flips.shape != tfhet::Shape{batch} && flips.shape != tfhet::Shape{1}) tfhet::invalid("flips are [1 or batch]");
    if (batch && (images.shape[1] < 1 || images.shape[2] < 1)) tfhet::invalid("images without pixels");
    if (images.type() == TF_UINT8) {
      run<uint8_t>(context, images, windows, flips);
    } else {
      run<float>(context, images, windows, flips);
    }
  }

 private:
  template <class T>
  void run(Context& context, const Input& images, const Input& windows, const Input& flips) const {
    const int64_t rows = images.shape[1], columns = images.shape[2], channels = images.shape[3];
    T* to = context.output<T>(0, {images.shape[0], height_, width_, channels});
    if (channels < 1) return;
    const auto each = channels == 1   ? &tfhet::resample<1, T, Rows<T>>
                      : channels == 3 ? &tfhet::resample<3, T, Rows<T>>
                                      : &tfhet::resample<0, T, Rows<T>>;
    const int64_t window_step = windows.shape[0] == 1 ? 0 : 4, flip_step = flips.shape[0] == 1 ? 0 : 1;
    tfhet::Axis y, x;
    for (int64_t i = 0; i < images.shape[0]; ++i) {
      if (i == 0 || window_step || flip_step) {
        const Window window = Window::of(windows.data<float>() + window_step * i, i, rows, columns);
        const bool flip = flips.data<bool>()[flip_step * i];
        y = tfhet::axis<1>(window.top, window.height, height_, rows, sampling_, false);
        x = tfhet::axis<2>(window.left, window.width, width_, columns, sampling_, flip);
      }
      Rows<T> image{images.data<T>() + (i * rows * columns + x.begin) * channels, columns * channels};
      each(image, y, x, channels, !sampling_.antialias, to + i * height_ * width_ * channels);
    }
  }

  int64_t height_, width_;
  tfhet::Sampling sampling_;
};

const tfhet::Op<ResizeWindows> op{
    "TfhetResizeWindows",
    {"images: T", "windows: float", "flips: bool"},
    {"result: T"},
    {"T: {uint8, float}", "height: int", "width: int", "antialias: bool", "confined: bool"}};

}  // namespace
