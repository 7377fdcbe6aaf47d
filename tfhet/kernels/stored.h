// Images that are stored decoded, in the format TFI: `tfhet convert --store yuv420` and `rgb`.
//
// A header of 16 bytes: "\x93TFI", the version (1), the kind, two zero bytes, height and width (uint32, little-endian).
// Then the values, uint8, and nothing after them:
//   yuv420: the planes Y [height, width], Cb and Cr [half the height, half the width, rounded up] of JPEG (JFIF: ITU-R
//           601, full range). RGB is made of them as libjpeg does it: colours are smoothed ("fancy upsampling"), unless
//           the image has at most 4 columns.
//   rgb:    [height, width, 3]
// The image is upright.

#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "failure.h"

namespace tfhet::stored {

enum class Kind : uint8_t { yuv420 = 1, rgb = 2 };

constexpr std::string_view MAGIC = "\x93TFI";
constexpr size_t HEADER = 16;
constexpr uint8_t VERSION = 1;
constexpr int64_t PIXEL_LIMIT = int64_t{1} << 29;  // as of all formats

inline bool is_stored(std::string_view data) { return data.substr(0, MAGIC.size()) == MAGIC; }

struct Image {
  Kind kind;
  int64_t height, width;
  const uint8_t* values;

  int64_t half_height() const { return (height + 1) / 2; }
  int64_t half_width() const { return (width + 1) / 2; }
  int64_t bytes() const {
    return kind == Kind::rgb ? 3 * height * width : height * width + 2 * half_height() * half_width();
  }
  // Returns a row of plane 0 (Y), 1 (Cb) or 2 (Cr) of yuv420.
  const uint8_t* row(int plane, int64_t y) const {
    if (plane == 0) return values + y * width;
    return values + height * width + ((plane - 1) * half_height() + y) * half_width();
  }
};

// Reads a header. Returns why it is not valid; nullptr if it is. The values may be too few.
inline const char* read_header(std::string_view data, Image& image) {
  const auto byte = [&](size_t place) { return static_cast<uint8_t>(data[place]); };
  const auto number = [&](size_t place) {
    return int64_t{byte(place)} | int64_t{byte(place + 1)} << 8 | int64_t{byte(place + 2)} << 16 | int64_t{byte(place + 3)} << 24;
  };
  if (data.size() < HEADER) return "the data end before the image does";
  if (byte(4) != VERSION) return "it has another version than 1: a newer tfhet wrote it";
  if (byte(5) != static_cast<uint8_t>(Kind::yuv420) && byte(5) != static_cast<uint8_t>(Kind::rgb)) return "it is of an unknown kind";
  if (byte(6) || byte(7)) return "its header is damaged";
  const int64_t height = number(8), width = number(12);
  if (height < 1 || width < 1) return "it has no pixels";
  if (height >= PIXEL_LIMIT || width >= PIXEL_LIMIT || height * width >= PIXEL_LIMIT) return "too large: 2**29 pixels or more";
  image = {static_cast<Kind>(byte(5)), height, width, reinterpret_cast<const uint8_t*>(data.data()) + HEADER};
  return nullptr;
}

// Reads a header, and compares the length of the data with it.
inline const char* read(std::string_view data, Image& image) {
  if (const char* why = read_header(data, image)) return why;
  const int64_t found = static_cast<int64_t>(data.size() - HEADER);
  if (found < image.bytes()) return "the data end before the image does";
  return found > image.bytes() ? "bytes follow the image" : nullptr;
}

inline void write_header(const Image& image, uint8_t* to) {
  std::memcpy(to, MAGIC.data(), MAGIC.size());
  to[4] = VERSION;
  to[5] = static_cast<uint8_t>(image.kind);
  to[6] = to[7] = 0;
  for (int i = 0; i < 4; ++i) {
    to[8 + i] = static_cast<uint8_t>(image.height >> 8 * i);
    to[12 + i] = static_cast<uint8_t>(image.width >> 8 * i);
  }
}

// Writes half-size columns [begin, end) of Cb or Cr at the full width: [2 * (end - begin)], of row y of the image.
inline void enlarge(const Image& image, int plane, int64_t y, int64_t begin, int64_t end, uint8_t* __restrict to) {
  const int64_t count = end - begin, columns = image.half_width();
  const uint8_t* __restrict near = image.row(plane, y / 2);
  if (columns <= 2) {
    for (int64_t i = 0; i < count; ++i) to[2 * i] = to[2 * i + 1] = near[begin + i];
    return;
  }
  const int64_t other = std::clamp<int64_t>(y / 2 + (y % 2 ? 1 : -1), 0, image.half_height() - 1);
  const uint8_t* __restrict far = image.row(plane, other);
  // Sums of two rows, with a neighbour on either side.
  uint16_t* __restrict sums = scratch<uint16_t, 50>(static_cast<size_t>(count + 2)) + 1;
  const int64_t low = std::max<int64_t>(begin - 1, 0), high = std::min(end + 1, columns);
  for (int64_t i = low; i < high; ++i) sums[i - begin] = static_cast<uint16_t>(3 * near[i] + far[i]);
  if (begin == 0) sums[-1] = sums[0];
  if (end == columns) sums[count] = sums[count - 1];
  for (int64_t i = 0; i < count; ++i) {
    to[2 * i] = static_cast<uint8_t>((3 * sums[i] + sums[i - 1] + 8) >> 4);
    to[2 * i + 1] = static_cast<uint8_t>((3 * sums[i] + sums[i + 1] + 7) >> 4);
  }
}

inline uint8_t level(int value) { return static_cast<uint8_t>(std::min(std::max(value, 0), 255)); }

// Writes columns [begin, end) of row y of a yuv420 image as RGB. begin: even.
inline void rgb_row(const Image& image, int64_t y, int64_t begin, int64_t end, uint8_t* __restrict to) {
  const int64_t first = begin / 2, last = (end + 1) / 2;
  uint8_t* __restrict blue = scratch<uint8_t, 51>(static_cast<size_t>(2 * (last - first)));
  uint8_t* __restrict red = scratch<uint8_t, 52>(static_cast<size_t>(2 * (last - first)));
  enlarge(image, 1, y, first, last, blue);
  enlarge(image, 2, y, first, last, red);
  const uint8_t* __restrict luma = image.row(0, y) + begin;
  for (int64_t x = 0; x < end - begin; ++x) {
    const int level_of = luma[x], cb = blue[x] - 128, cr = red[x] - 128;  // in 2**-16, as in jdcolor.c of libjpeg
    to[3 * x] = level(level_of + ((91881 * cr + 32768) >> 16));
    to[3 * x + 1] = level(level_of + ((-22554 * cb - 46802 * cr + 32768) >> 16));
    to[3 * x + 2] = level(level_of + ((116130 * cb + 32768) >> 16));
  }
}

// The rows of a yuv420 image from column x.begin on as RGB, for `resample`: converted when they are asked for.
class Rows {
 public:
  // begin, end: columns that count. first: the first row. taps: rows that are kept.
  Rows(const Image& image, int64_t begin, int64_t end, int64_t first, int64_t taps)
      : image_(image),
        begin_(begin & ~int64_t{1}),
        end_(end),
        next_(first),
        taps_(std::max<int64_t>(1, taps)),
        line_(3 * (end_ - begin_)),
        offset_(3 * (begin - begin_)),
        ring_(scratch<uint8_t, 53>(static_cast<size_t>(taps_ * line_))) {}

  const uint8_t* operator()(int64_t y) {
    for (; next_ <= y; ++next_) rgb_row(image_, next_, begin_, end_, ring_ + next_ % taps_ * line_);
    return ring_ + y % taps_ * line_ + offset_;
  }

 private:
  const Image& image_;
  int64_t begin_, end_, next_, taps_, line_, offset_;
  uint8_t* ring_;
};

}  // namespace tfhet::stored
