// Decodes whole image files: JPEG, PNG, WebP, BMP and GIF. The pixels equal those of TensorFlow's decode_image.
//
// JPEG needs libjpeg-turbo, PNG libpng and WebP libwebp (Debian: libjpeg-dev, libpng-dev, libwebp-dev). If a header is
// missing, codecs.cc is compiled without its format, and `decode` throws an error that names the package.

#pragma once

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

}  // namespace tfhet::codecs
