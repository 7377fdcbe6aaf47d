// Decodes whole image files: JPEG, PNG, WebP, BMP, GIF and TFI (stored.h). The pixels equal those of TensorFlow's
// decode_image.
//
// JPEG needs libjpeg-turbo, PNG libpng and WebP libwebp (Debian: libjpeg-dev, libpng-dev, libwebp-dev). If a header is
// missing, codecs.cc is compiled without its format, and `decode` throws an error that names the package.

#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace tfhet::codecs {

struct Size {
  int64_t height = 0, width = 0;
  bool known() const { return height > 0 && width > 0; }
};

struct Pixels {
  int64_t height = 0, width = 0;
  std::vector<uint8_t> values;  // [height, width, channels]
};

// Returns the rows and columns of the image before it is turned. Only headers are read. {0, 0}: the format is unknown,
// or the file ends before its header does.
Size size_of(std::string_view data);

// Returns the Exif orientation, 1 to 8, of a JPEG, PNG or WebP file; 1 (upright) for all other files.
int orientation_of(std::string_view data);

// How an image of an Exif orientation, 1 to 8, becomes upright: it is transposed, then mirrored (left and right are
// exchanged) and inverted (top and bottom).
struct Turn {
  bool is_transposed, is_mirrored, is_inverted;

  explicit Turn(int code)
      : is_transposed(code >= 5),
        is_mirrored(code == 2 || code == 3 || code == 6 || code == 7),
        is_inverted(code == 3 || code == 4 || code == 7 || code == 8) {}
  bool is_none() const { return !is_transposed && !is_mirrored && !is_inverted; }
};

// Turns an image. from: [height, width, channels], of 1 or 3 channels; to: [width, height, channels] if it is transposed.
void turn(const uint8_t* from, int64_t height, int64_t width, int64_t channels, const Turn& turn, uint8_t* to);

// Decodes an image file; the first frame of a GIF.
//
// channels: 1 (grey) or 3 (RGB). Alpha is dropped. 16-bit PNGs keep the upper 8 bits of each value.
// upright: whether the image is turned by its Exif orientation.
// accurate: whether JPEG is decoded by JDCT_ISLOW; JDCT_IFAST otherwise.
// index: the place of the file in its batch, for errors.
//
// Throws Failure: invalid_argument if the file is damaged, of an unknown format, an animated WebP, or of 2**29 pixels
// or more; resource_exhausted if there is no memory.
Pixels decode(std::string_view data, int64_t channels, bool upright, bool accurate, int64_t index);

// The planes Y, Cb and Cr of YUV 4:2:0; without pixels if a file has no such planes.
using Planes = std::array<Pixels, 3>;

// Returns the upright planes of a JPEG file of 4:2:0 or grey, as `decode` makes RGB of them. Throws as it does.
Planes planes(std::string_view data, bool accurate, int64_t index);

}  // namespace tfhet::codecs
