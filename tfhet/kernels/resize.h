// Windows of decoded images resized to one size, and mirrored if a flip is set.

#pragma once

#include "resample.h"

namespace tfhet::resize {

template <class T>
struct Rows {
  const T* from;
  int64_t line;
  const T* operator()(int64_t y) const { return from + y * line; }
};

struct Axes {
  Axis y, x;  // in scratch memory of this thread, until the next ones are computed

  // Throws if the window is not inside the image. index: of the image, for the message.
  Axes(const float* window, int64_t index, int64_t rows, int64_t columns, bool flip, int64_t height, int64_t width,
       Sampling sampling) {
    if (rows < 1 || columns < 1) invalid("images without pixels");
    const Window place = Window::of(window, index, rows, columns);
    y = axis<1>(place.top, place.height, height, rows, sampling, false);
    x = axis<2>(place.left, place.width, width, columns, sampling, flip);
  }
};

// from: [rows, columns, channels].
template <class T>
void resize_axes(const T* from, int64_t columns, int64_t channels, const Axes& axes, Sampling sampling, T* to) {
  if (channels < 1) return;
  const auto resampled = channels == 1   ? &resample<1, T, Rows<T>>
                         : channels == 3 ? &resample<3, T, Rows<T>>
                                         : &resample<0, T, Rows<T>>;
  Rows<T> rows{from + axes.x.begin * channels, columns * channels};
  resampled(rows, axes.y, axes.x, channels, !sampling.antialias, to);
}

// Resizes a window of an image to height x width, and mirrors it if `flip` is set. window: top, left, height, width, in
// pixels. index: of the image, for the message of an error.
template <class T>
void resize_window(const T* from, int64_t rows, int64_t columns, int64_t channels, const float* window, int64_t index,
                   bool flip, int64_t height, int64_t width, Sampling sampling, T* to) {
  const Axes axes(window, index, rows, columns, flip, height, width, sampling);
  resize_axes(from, columns, channels, axes, sampling, to);
}

}  // namespace tfhet::resize
