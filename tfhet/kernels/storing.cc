// Makes TFI files (stored.h) of image files.

#include "codecs.h"
#include "guard.h"
#include "memory.h"
#include "resize.h"
#include "stored.h"

namespace tfhet {

namespace {

using codecs::Pixels;
using codecs::Planes;

Pixels reduced(Pixels pixels, int64_t max_side) {
  const int64_t longer = std::max(pixels.height, pixels.width);
  if (max_side == 0 || longer <= max_side) return pixels;
  const auto side = [&](int64_t length) {
    return std::max<int64_t>(1, (2 * length * max_side + longer) / (2 * longer));
  };
  Pixels made{side(pixels.height), side(pixels.width), {}};
  made.values.resize(static_cast<size_t>(3 * made.height * made.width));
  const float window[4] = {0, 0, static_cast<float>(pixels.height), static_cast<float>(pixels.width)};
  resize::resize_window<uint8_t>(pixels.values.data(), pixels.height, pixels.width, 3, window, 0, false, made.height,
                                 made.width, {true, false}, made.values.data());
  return made;
}

// RGB to YUV 4:2:0, as libjpeg's encoder does it: a colour is the mean of 2 x 2 pixels; the last pixels repeat.
Planes planes_of(const Pixels& rgb) {
  const int64_t height = rgb.height, width = rgb.width, rows = (height + 1) / 2, columns = (width + 1) / 2;
  Planes made{Pixels{height, width, {}}, Pixels{rows, columns, {}}, Pixels{rows, columns, {}}};
  for (Pixels& plane : made) plane.values.resize(static_cast<size_t>(plane.height * plane.width));
  for (int64_t i = 0; i < height * width; ++i) {
    const uint8_t* from = rgb.values.data() + 3 * i;
    made[0].values[i] = static_cast<uint8_t>((19595 * from[0] + 38470 * from[1] + 7471 * from[2] + 32768) >> 16);
  }
  constexpr int32_t MIDDLE = (128 << 16) + 32767;
  for (int64_t y = 0; y < rows; ++y) {
    for (int64_t x = 0; x < columns; ++x) {
      int32_t blue = 1 + x % 2, red = blue;  // rounded up and down in turns
      for (const int64_t row : {2 * y, std::min(2 * y + 1, height - 1)}) {
        for (const int64_t column : {2 * x, std::min(2 * x + 1, width - 1)}) {
          const uint8_t* from = rgb.values.data() + 3 * (row * width + column);
          blue += (-11059 * from[0] - 21709 * from[1] + 32768 * from[2] + MIDDLE) >> 16;
          red += (32768 * from[0] - 27439 * from[1] - 5329 * from[2] + MIDDLE) >> 16;
        }
      }
      made[1].values[y * columns + x] = static_cast<uint8_t>(blue >> 2);
      made[2].values[y * columns + x] = static_cast<uint8_t>(red >> 2);
    }
  }
  return made;
}

// Returns the bytes of a TFI file, and their number.
std::pair<Piece, int64_t> store(std::string_view file, stored::Kind kind, int64_t max_side, bool accurate) {
  const codecs::Size found = codecs::size_of(file);
  const bool is_kept = max_side == 0 || std::max(found.height, found.width) <= max_side;
  Planes planes;
  if (kind == stored::Kind::yuv420 && is_kept) planes = codecs::planes(file, accurate, 0);
  if (planes[0].height == 0) {
    Pixels rgb = reduced(codecs::decode(file, 3, true, accurate, 0), max_side);
    if (kind == stored::Kind::yuv420) planes = planes_of(rgb);
    else planes = {std::move(rgb)};
  }
  const stored::Image image{kind, planes[0].height, planes[0].width, nullptr};
  const int64_t size = static_cast<int64_t>(stored::HEADER) + image.bytes();
  Piece made = piece(static_cast<uint64_t>(size));
  stored::write_header(image, made.get());
  uint8_t* to = made.get() + stored::HEADER;
  for (const Pixels& plane : planes) to = std::copy(plane.values.begin(), plane.values.end(), to);
  return {std::move(made), size};
}

}  // namespace

}  // namespace tfhet

TFHET_EXPORT int32_t tfhet_image_store(const char* file, int64_t bytes, int32_t kind, int64_t max_side, int32_t accurate,
                                       const void** address, int64_t* size, tfhet_memory** memory, tfhet_status* status) {
  return tfhet::guarded(status, [&] {
    if (!file || bytes < 0 || !address || !size || !memory)
      throw tfhet::Failure{tfhet::Code::internal, "no file, or no place for the result"};
    if ((kind != 1 && kind != 2) || max_side < 0) tfhet::invalid("an image is stored as kind 1 or 2, with sides from 1 on");
    auto [made, length] = tfhet::store({file, static_cast<size_t>(bytes)}, static_cast<tfhet::stored::Kind>(kind),
                                       std::min<int64_t>(max_side, INT32_MAX), accurate != 0);
    auto kept = std::make_unique<tfhet_memory>();
    *address = made.get();
    *size = length;
    kept->pieces.push_back(std::move(made));
    *memory = kept.release();
  });
}
