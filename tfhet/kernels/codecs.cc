#include "codecs.h"

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <utility>

#if __has_include(<jpeglib.h>)
#include <jpeglib.h>
#include <jerror.h>
#define TFHET_JPEG 1
#endif
#if __has_include(<png.h>)
#include <png.h>
#define TFHET_PNG 1
#endif
#if __has_include(<webp/decode.h>)
#include <webp/decode.h>
#define TFHET_WEBP 1
#endif

#include "failure.h"
#include "stored.h"

namespace tfhet::codecs {
namespace {

constexpr int64_t PIXEL_LIMIT = int64_t{1} << 29;  // the limit of TensorFlow
constexpr const char* CUT_OFF = "the data end before the image does";

// Why a file is no valid image of its format.
struct Refused {
  std::string why;
};

[[noreturn]] void refuse(std::string why) { throw Refused{std::move(why)}; }

// --- Numbers in headers. The caller checks that they are within the data. ---

unsigned at(std::string_view data, size_t place) { return static_cast<unsigned char>(data[place]); }

uint32_t big(std::string_view data, size_t place, int bytes) {
  uint32_t found = 0;
  for (int i = 0; i < bytes; ++i) found = found << 8 | at(data, place + i);
  return found;
}

uint32_t little(std::string_view data, size_t place, int bytes) {
  uint32_t found = 0;
  for (int i = bytes; i-- > 0;) found = found << 8 | at(data, place + i);
  return found;
}

// --- Formats ---

bool is_jpeg(std::string_view data) { return data.substr(0, 3) == "\xff\xd8\xff"; }
bool is_png(std::string_view data) { return data.substr(0, 8) == "\x89PNG\r\n\x1a\n"; }
bool is_gif(std::string_view data) { return data.substr(0, 4) == "GIF8"; }
bool is_bmp(std::string_view data) { return data.substr(0, 2) == "BM"; }
bool is_webp(std::string_view data) {
  return data.size() > 12 && data.substr(0, 4) == "RIFF" && data.substr(8, 4) == "WEBP";
}

[[maybe_unused]] [[noreturn]] void lacks(const std::string& name, const char* format, const char* package) {
  invalid(name + " is a " + format + " image, but this library was compiled without a decoder of " + format +
          ": install " + package + " (its name in Debian and Ubuntu) and compile the library again");
}

Pixels of_size(int64_t height, int64_t width, int64_t channels) {
  if (height < 1 || width < 1) refuse("it has no pixels");
  if (height >= PIXEL_LIMIT || width >= PIXEL_LIMIT || height * width >= PIXEL_LIMIT)
    refuse("too large: 2**29 pixels or more");
  return {height, width, std::vector<uint8_t>(static_cast<size_t>(height * width * channels))};
}

// --- JPEG ---

// Reads the size from the frame header.
Size jpeg_size(std::string_view data) {
  size_t place = 2;
  while (place + 9 < data.size()) {
    if (at(data, place) != 0xff) {
      ++place;
      continue;
    }
    const unsigned marker = at(data, place + 1);
    if (marker == 0xff) {
      ++place;
    } else if (marker == 0x00 || marker == 0x01 || (marker >= 0xd0 && marker <= 0xd8)) {
      place += 2;
    } else if (marker == 0xd9 || marker == 0xda) {
      break;
    } else if (marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc) {
      return {big(data, place + 5, 2), big(data, place + 7, 2)};
    } else {
      place += 2 + big(data, place + 2, 2);
    }
  }
  return {};
}

#ifdef TFHET_JPEG
constexpr int SCAN_LIMIT = 500;  // a progressive image has about 10 scans; crafted files with more take minutes

// libjpeg reports an error by a jump to `back`. Functions with setjmp, and all functions that they call, have only
// variables without destructors.
class Jpeg {
 public:
  explicit Jpeg(std::string_view data) {
    info.err = jpeg_std_error(&errors_);
    errors_.error_exit = [](j_common_ptr common) {
      Jpeg* self = static_cast<Jpeg*>(common->client_data);
      self->no_memory = common->err->msg_code == JERR_OUT_OF_MEMORY;
      common->err->format_message(common, self->message);
      std::longjmp(self->back, 1);
    };
    errors_.emit_message = [](j_common_ptr, int) {};
    errors_.output_message = [](j_common_ptr) {};
    source_.init_source = [](j_decompress_ptr) {};
    source_.term_source = [](j_decompress_ptr) {};
    source_.resync_to_restart = &jpeg_resync_to_restart;
    source_.fill_input_buffer = [](j_decompress_ptr info) -> boolean { of(info)->fail(CUT_OFF); };
    source_.skip_input_data = [](j_decompress_ptr info, long count) {
      if (count <= 0) return;
      if (static_cast<size_t>(count) > info->src->bytes_in_buffer) of(info)->fail(CUT_OFF);
      info->src->next_input_byte += count;
      info->src->bytes_in_buffer -= static_cast<size_t>(count);
    };
    source_.next_input_byte = reinterpret_cast<const JOCTET*>(data.data());
    source_.bytes_in_buffer = data.size();
    progress_.progress_monitor = [](j_common_ptr common) {
      const auto info = reinterpret_cast<j_decompress_ptr>(common);
      if (info->input_scan_number > SCAN_LIMIT) of(info)->fail("more than 500 scans");
    };
    info.client_data = this;
  }
  ~Jpeg() { jpeg_destroy_decompress(&info); }
  Jpeg(const Jpeg&) = delete;
  Jpeg& operator=(const Jpeg&) = delete;

  // Both functions return whether there was no error.
  bool read_header() {
    if (setjmp(back)) return false;
    jpeg_create_decompress(&info);
    info.src = &source_;
    info.progress = &progress_;
    jpeg_read_header(&info, TRUE);
    return true;
  }

  // to: [height, width, channels]; with inks [width, 4] RGB.
  bool read_rows(J_COLOR_SPACE space, bool accurate, uint8_t* to, uint8_t* inks) {
    if (setjmp(back)) return false;
    info.out_color_space = space;
    info.dct_method = accurate ? JDCT_ISLOW : JDCT_IFAST;
    jpeg_start_decompress(&info);
    const size_t line = size_t{info.output_width} * (inks ? 3 : static_cast<size_t>(info.output_components));
    while (info.output_scanline < info.output_height) {
      uint8_t* row = to + info.output_scanline * line;
      JSAMPROW target = inks ? inks : row;
      if (jpeg_read_scanlines(&info, &target, 1) != 1) fail(CUT_OFF);
      if (inks) mix(inks, row);
    }
    return true;
  }

  // Whether its planes are YUV 4:2:0, or Y alone.
  bool has_planes() const {
    const jpeg_component_info* parts = info.comp_info;
    if (info.jpeg_color_space == JCS_GRAYSCALE) return parts[0].v_samp_factor <= 2;
    if (info.jpeg_color_space != JCS_YCbCr || parts[0].h_samp_factor != 2 || parts[0].v_samp_factor != 2) return false;
    return parts[1].h_samp_factor == 1 && parts[1].v_samp_factor == 1 && parts[2].h_samp_factor == 1 &&
           parts[2].v_samp_factor == 1;
  }

  // to: [height, width] of each plane. memory: [48, line] for a row of blocks, with `line` a multiple of the blocks.
  bool read_planes(bool accurate, uint8_t* const* to, uint8_t* memory, size_t line) {
    if (setjmp(back)) return false;
    info.raw_data_out = TRUE;
    info.dct_method = accurate ? JDCT_ISLOW : JDCT_IFAST;
    jpeg_start_decompress(&info);
    JSAMPROW rows[48];
    JSAMPARRAY parts[3] = {rows, rows + 16, rows + 32};
    for (size_t i = 0; i < 48; ++i) rows[i] = memory + i * line;
    const JDIMENSION lines = static_cast<JDIMENSION>(info.max_v_samp_factor * DCTSIZE);
    for (JDIMENSION top = 0; top < info.output_height; top += lines) {
      if (jpeg_read_raw_data(&info, parts, lines) != lines) fail(CUT_OFF);
      for (int c = 0; c < info.num_components; ++c) {
        const size_t width = info.comp_info[c].downsampled_width, height = info.comp_info[c].downsampled_height;
        const size_t count = static_cast<size_t>(info.comp_info[c].v_samp_factor * DCTSIZE), first = top / lines * count;
        for (size_t i = 0; i < std::min(count, height - first); ++i)
          std::memcpy(to[c] + (first + i) * width, parts[c][i], width);
      }
    }
    return true;
  }

  jpeg_decompress_struct info{};
  std::jmp_buf back;
  char message[JMSG_LENGTH_MAX] = "";
  bool no_memory = false;

 private:
  static Jpeg* of(j_decompress_ptr info) { return static_cast<Jpeg*>(info->client_data); }
  [[noreturn]] void fail(const char* why) {
    std::snprintf(message, sizeof(message), "%s", why);
    std::longjmp(back, 1);
  }

  // Four inks to RGB, as TensorFlow mixes them. Adobe's programs store inverted inks.
  void mix(const uint8_t* inks, uint8_t* row) const {
    const bool is_inverted = info.saw_Adobe_marker;
    for (size_t x = 0; x < info.output_width; ++x) {
      const int black = inks[4 * x + 3];
      for (size_t c = 0; c < 3; ++c) {
        const int ink = inks[4 * x + c];
        row[3 * x + c] = static_cast<uint8_t>(is_inverted ? black * ink / 255 : (255 - ink) * (255 - black) / 255);
      }
    }
  }

  jpeg_error_mgr errors_{};
  jpeg_source_mgr source_{};
  jpeg_progress_mgr progress_{};
};

void check(const Jpeg& jpeg, bool is_good) {
  if (jpeg.no_memory) throw std::bad_alloc();
  if (!is_good) refuse(jpeg.message);
}

// Reads the header, and returns the size.
Size jpeg_begun(Jpeg& jpeg, std::string_view data) {
  check(jpeg, jpeg.read_header());
  const Size size = jpeg_size(data);
  if (size.height != jpeg.info.image_height || size.width != jpeg.info.image_width) refuse("two frame headers");
  return size;
}

Planes jpeg_planes(std::string_view data, bool accurate) {
  Jpeg jpeg(data);
  const auto [height, width] = jpeg_begun(jpeg, data);
  if (!jpeg.has_planes()) return {};
  const int64_t rows = (height + 1) / 2, columns = (width + 1) / 2;
  Planes planes{of_size(height, width, 1), of_size(rows, columns, 1), of_size(rows, columns, 1)};
  uint8_t* const to[3] = {planes[0].values.data(), planes[1].values.data(), planes[2].values.data()};
  if (jpeg.info.num_components == 1)
    for (int c : {1, 2}) std::fill(planes[c].values.begin(), planes[c].values.end(), uint8_t{128});
  const size_t line = (static_cast<size_t>(width) + 31) / 16 * 16;
  std::vector<uint8_t> memory(48 * line);
  check(jpeg, jpeg.read_planes(accurate, to, memory.data(), line));
  return planes;
}

Pixels jpeg_pixels(std::string_view data, int64_t channels, bool accurate) {
  Jpeg jpeg(data);
  const auto [height, width] = jpeg_begun(jpeg, data);
  const bool has_inks = jpeg.info.jpeg_color_space == JCS_CMYK || jpeg.info.jpeg_color_space == JCS_YCCK;
  const bool is_grey = channels == 1 && !has_inks;
  std::vector<uint8_t> inks(has_inks ? static_cast<size_t>(4 * width) : 0);
  Pixels pixels = of_size(height, width, is_grey ? 1 : 3);
  const J_COLOR_SPACE space = has_inks ? JCS_CMYK : is_grey ? JCS_GRAYSCALE : JCS_RGB;
  check(jpeg, jpeg.read_rows(space, accurate, pixels.values.data(), has_inks ? inks.data() : nullptr));
  return pixels;
}
#endif

// --- PNG ---

#ifdef TFHET_PNG
constexpr int64_t DEFLATE_RATIO = 1032;  // no deflate stream expands further

// libpng reports an error by a jump to `back`, as libjpeg does.
class Png {
 public:
  Png(std::string_view data, int64_t channels) : data_(data), channels_(channels) {}
  ~Png() { png_destroy_read_struct(&png_, &info_, nullptr); }
  Png(const Png&) = delete;
  Png& operator=(const Png&) = delete;

  // Both functions return whether there was no error. The transformations are those of TensorFlow.
  bool read_header() {
    if (setjmp(back_)) return false;
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, &fail, [](png_structp, png_const_charp) {});
    if (png_) info_ = png_create_info_struct(png_);
    if (!info_) return no_memory();
    png_set_read_fn(png_, this, &read);
#ifdef PNG_HANDLE_AS_UNKNOWN_SUPPORTED
    // Text may be compressed, 8 MB each: it is passed over.
    const auto* names = reinterpret_cast<png_const_bytep>("tEXt\0zTXt\0iTXt\0sPLT\0eXIf");
    png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, names, 5);
#endif
    png_read_info(png_, info_);
    height = png_get_image_height(png_, info_);
    width = png_get_image_width(png_, info_);
    bits = int64_t{png_get_bit_depth(png_, info_)} * png_get_channels(png_, info_);
    const int kind = png_get_color_type(png_, info_), depth = png_get_bit_depth(png_, info_);
    const bool is_grey = !(kind & PNG_COLOR_MASK_COLOR);
    if ((kind & PNG_COLOR_MASK_ALPHA) || png_get_valid(png_, info_, PNG_INFO_tRNS)) png_set_strip_alpha(png_);
    if (depth > 8) png_set_strip_16(png_);
    png_set_packing(png_);
    passes_ = png_set_interlace_handling(png_);
    if (kind == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png_);
    if (is_grey && depth < 8) png_set_expand_gray_1_2_4_to_8(png_);
    if (channels_ == 1 && !is_grey) png_set_rgb_to_gray(png_, PNG_ERROR_ACTION_NONE, 0.299, 0.587);
    if (channels_ == 3 && is_grey) png_set_gray_to_rgb(png_);
    png_read_update_info(png_, info_);
    const auto line = static_cast<int64_t>(png_get_rowbytes(png_, info_));
    if (line != width * channels_) png_error(png_, "unknown kind of pixels");
    return true;
  }

  bool read_rows(uint8_t* to) {
    if (setjmp(back_)) return false;
    for (int pass = 0; pass < passes_; ++pass)
      for (int64_t y = 0; y < height; ++y) png_read_row(png_, to + y * width * channels_, nullptr);
    png_read_end(png_, nullptr);
    return true;
  }

  int64_t height = 0, width = 0;
  int64_t bits = 0;  // of a pixel in the file
  char message[128] = "";
  static constexpr char NO_MEMORY[] = "Out of memory";

 private:
  bool no_memory() {
    std::snprintf(message, sizeof(message), "%s", NO_MEMORY);
    return false;
  }
  [[noreturn]] static void fail(png_structp png, png_const_charp why) {
    Png* self = static_cast<Png*>(png_get_error_ptr(png));
    std::snprintf(self->message, sizeof(self->message), "%s", why ? why : "libpng does not say why");
    std::longjmp(self->back_, 1);
  }
  static void read(png_structp png, png_bytep to, size_t count) {
    Png* self = static_cast<Png*>(png_get_io_ptr(png));
    if (count > self->data_.size()) png_error(png, CUT_OFF);
    std::memcpy(to, self->data_.data(), count);
    self->data_.remove_prefix(count);
  }

  std::string_view data_;
  int64_t channels_;
  int passes_ = 1;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  std::jmp_buf back_;
};

Pixels png_pixels(std::string_view data, int64_t channels) {
  Png png(data, channels);
  const auto check = [&](bool is_good) {
    if (is_good) return;
    if (std::string_view(png.message) == Png::NO_MEMORY) throw std::bad_alloc();
    refuse(png.message);
  };
  check(png.read_header());
  if (png.height * png.width < PIXEL_LIMIT &&
      png.height * png.width * png.bits / 8 > DEFLATE_RATIO * static_cast<int64_t>(data.size()))
    refuse(CUT_OFF);
  Pixels pixels = of_size(png.height, png.width, channels);
  check(png.read_rows(pixels.values.data()));
  return pixels;
}
#endif

// --- WebP ---

Size webp_size(std::string_view data) {
  if (data.size() < 30) return {};
  const std::string_view kind = data.substr(12, 4);
  if (kind == "VP8X") return {little(data, 27, 3) + 1, little(data, 24, 3) + 1};
  if (kind == "VP8 " && data.substr(23, 3) == "\x9d\x01\x2a")
    return {little(data, 28, 2) & 0x3fff, little(data, 26, 2) & 0x3fff};
  if (kind == "VP8L" && at(data, 20) == 0x2f) {
    const uint32_t sides = little(data, 21, 4);
    return {(sides >> 14 & 0x3fff) + 1, (sides & 0x3fff) + 1};
  }
  return {};
}

#ifdef TFHET_WEBP
Pixels webp_pixels(std::string_view data, const std::string& name) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(data.data());
  const auto check = [](VP8StatusCode code) {
    if (code == VP8_STATUS_OUT_OF_MEMORY) throw std::bad_alloc();
    if (code == VP8_STATUS_NOT_ENOUGH_DATA || code == VP8_STATUS_SUSPENDED) refuse(CUT_OFF);
    if (code == VP8_STATUS_UNSUPPORTED_FEATURE) refuse("it has a feature that libwebp does not support");
    if (code != VP8_STATUS_OK) refuse("its data are damaged");
  };
  WebPDecoderConfig config;
  if (!WebPInitDecoderConfig(&config)) refuse("another version of libwebp was installed after the compilation");
  check(WebPGetFeatures(bytes, data.size(), &config.input));
  if (config.input.has_animation)
    invalid(name + " is an animated WebP image, and only single images are decoded: save its frames as single files");
  Pixels pixels = of_size(config.input.height, config.input.width, 3);
  config.output.colorspace = MODE_RGB;
  config.output.is_external_memory = 1;
  config.output.u.RGBA.rgba = pixels.values.data();
  config.output.u.RGBA.stride = static_cast<int>(3 * pixels.width);
  config.output.u.RGBA.size = pixels.values.size();
  const VP8StatusCode code = WebPDecode(bytes, data.size(), &config);
  WebPFreeDecBuffer(&config.output);
  check(code);
  return pixels;
}
#endif

// --- BMP ---

struct Bmp {
  int64_t height = 0, width = 0;
  bool is_top_down = false;
};

constexpr size_t BMP_HEADER = 14, BMP_INFO = 40;  // bytes of the file header, and at least of the image header

Bmp bmp_header(std::string_view data) {
  if (data.size() < BMP_HEADER + 12) refuse(CUT_OFF);
  if (little(data, BMP_HEADER, 4) < BMP_INFO) refuse("it has a header of OS/2, which is not supported");
  const int64_t width = static_cast<int32_t>(little(data, 18, 4)), height = static_cast<int32_t>(little(data, 22, 4));
  if (width < 1 || height == 0) refuse("it has no pixels");
  return {std::abs(height), width, height < 0};
}

Pixels bmp_pixels(std::string_view data) {
  const Bmp header = bmp_header(data);
  if (data.size() < BMP_HEADER + BMP_INFO) refuse(CUT_OFF);
  const int64_t start = little(data, 10, 4), size = static_cast<int64_t>(data.size());
  const size_t info = little(data, BMP_HEADER, 4);
  const unsigned bits = little(data, 28, 2), compression = little(data, 30, 4);
  if (bits != 8 && bits != 24 && bits != 32)
    refuse(std::to_string(bits) + " bits per pixel are not supported: 8, 24 or 32");
  size_t masks = 0;
  if (bits == 32 && compression == 3) {  // three masks say which bits are red, green and blue
    masks = info == BMP_INFO ? 12 : 0;
    if (data.size() < BMP_HEADER + BMP_INFO + 12) refuse(CUT_OFF);
    if (little(data, 54, 4) != 0xff0000 || little(data, 58, 4) != 0xff00 || little(data, 62, 4) != 0xff)
      refuse("the order of its colours is not supported: blue, green, red");
  } else if (compression != 0) {
    refuse("it is compressed, which is not supported");
  }
  const int64_t bytes = bits / 8, line = (header.width * bytes + 3) / 4 * 4;
  if (start > size || line > size || header.height > (size - start) / line) refuse(CUT_OFF);

  // The palette, between the headers and the pixels. Without one a value is a level of grey.
  const int64_t before = static_cast<int64_t>(BMP_HEADER + masks) + static_cast<int64_t>(info);
  int64_t colours = 0;
  if (bits == 8) {
    const int64_t used = little(data, 46, 4);
    colours = std::min<int64_t>({used ? used : 256, 256, std::max<int64_t>(0, start - before) / 4});
  }
  Pixels pixels = of_size(header.height, header.width, 3);
  const auto* memory = reinterpret_cast<const uint8_t*>(data.data());
  const bool is_level = bits == 8 && colours == 0;
  uint8_t* to = pixels.values.data();
  for (int64_t y = 0; y < header.height; ++y) {
    const uint8_t* row = memory + start + (header.is_top_down ? y : header.height - 1 - y) * line;
    for (int64_t x = 0; x < header.width; ++x, row += bytes, to += 3) {
      if (colours && row[0] >= colours) refuse("a pixel has a colour that is not in the palette");
      const uint8_t* from = colours ? memory + before + 4 * row[0] : row;
      for (int c = 0; c < 3; ++c) to[c] = from[is_level ? 0 : 2 - c];  // the file has blue, green, red
    }
  }
  return pixels;
}

// --- GIF ---

// The first frame, and the sides of the largest frame, which are the sides of TensorFlow's image.
struct Gif {
  int64_t height = 0, width = 0;
  int64_t top = 0, left = 0, rows = 0, columns = 0;
  bool is_interlaced = false;
  std::string_view palette;  // 3 bytes for each colour
  int transparent = -1;      // the index of no colour
  size_t codes = 0;          // where the frame's codes begin, with their width
};

// Returns the place after a chain of blocks, of which each begins with its length; 0 if the data end before.
size_t after_blocks(std::string_view data, size_t place) {
  while (place < data.size()) {
    const size_t length = at(data, place);
    place += 1 + length;
    if (length == 0) return place;
  }
  return 0;
}

// A file that is cut off or damaged after its first frame counts as the frames before.
Gif gif_header(std::string_view data) {
  Gif gif;
  if (data.size() < 13) refuse(CUT_OFF);
  const auto palette_at = [&](size_t place, unsigned flags) {
    return data.substr(std::min(place, data.size()), flags & 0x80 ? size_t{6} << (flags & 7) : 0);
  };
  const std::string_view shared = palette_at(13, at(data, 10));
  const char* why = CUT_OFF;
  bool has_control = false;
  for (size_t place = 13 + shared.size(); place < data.size();) {
    const unsigned kind = at(data, place);
    if (kind == 0x21) {
      if (!has_control && place + 8 <= data.size() && data.substr(place + 1, 2) == "\xf9\x04") {
        has_control = true;
        if (gif.codes == 0 && at(data, place + 3) & 1) gif.transparent = static_cast<int>(at(data, place + 6));
      }
      place = after_blocks(data, place + 2);
    } else if (kind == 0x2c) {
      if (place + 11 > data.size()) break;
      const int64_t columns = little(data, place + 5, 2), rows = little(data, place + 7, 2);
      const unsigned flags = at(data, place + 9);
      const std::string_view own = palette_at(place + 10, flags);
      const size_t codes = place + 10 + own.size(), end = after_blocks(data, codes + 1);
      why = rows < 1 || columns < 1 ? "it has no pixels" : CUT_OFF;
      if (end == 0 || rows < 1 || columns < 1) break;
      gif.height = std::max(gif.height, rows);
      gif.width = std::max(gif.width, columns);
      if (gif.codes == 0) {
        gif.left = little(data, place + 1, 2);
        gif.top = little(data, place + 3, 2);
        gif.rows = rows;
        gif.columns = columns;
        gif.is_interlaced = flags & 0x40;
        gif.palette = flags & 0x80 ? own : shared;
        gif.codes = codes;
      }
      place = end;
    } else {
      why = kind == 0x3b ? "it has no frame" : "a block of unknown kind";
      break;
    }
    if (place == 0) break;
  }
  if (gif.codes == 0) refuse(why);
  return gif;
}

// The codes of a frame, of 3 to 12 bits each.
class Codes {
 public:
  Codes(std::string_view data, size_t place) : data_(data), place_(place) {}

  int next(int width) {
    while (count_ < width) {
      if (left_ == 0 && (left_ = byte()) == 0) refuse(CUT_OFF);
      bits_ |= byte() << count_;
      count_ += 8;
      --left_;
    }
    const int code = static_cast<int>(bits_ & ((1u << width) - 1));
    bits_ >>= width;
    count_ -= width;
    return code;
  }

 private:
  unsigned byte() {
    if (place_ >= data_.size()) refuse(CUT_OFF);
    return at(data_, place_++);
  }

  std::string_view data_;
  size_t place_;
  unsigned left_ = 0, bits_ = 0;
  int count_ = 0;
};

// Returns indices of colours, in the order of the file.
std::vector<uint8_t> lzw(std::string_view data, const Gif& gif) {
  constexpr int MOST = 4096;  // codes of 12 bits
  const int width = static_cast<int>(at(data, gif.codes));
  if (width < 1 || width > 8) refuse("its codes have a width that GIF does not have");
  const int clear = 1 << width, end = clear + 1;
  // A code stands for the values of another code, and one more.
  std::array<uint16_t, MOST> before, length;
  std::array<uint8_t, MOST> first, last;
  for (int code = 0; code < clear; ++code) {
    before[code] = 0;
    length[code] = 1;
    first[code] = last[code] = static_cast<uint8_t>(code);
  }
  std::vector<uint8_t> values = std::move(of_size(gif.rows, gif.columns, 1).values);
  Codes codes(data, gif.codes + 1);
  int known = end + 1, bits = width + 1, previous = -1;
  for (size_t done = 0; done < values.size();) {
    int code = codes.next(bits);
    if (code == end) refuse(CUT_OFF);
    if (code == clear) {
      known = end + 1;
      bits = width + 1;
      previous = -1;
      continue;
    }
    if (code >= known + (previous >= 0 && known < MOST)) refuse("a code that was not defined");
    if (previous >= 0 && known < MOST) {
      before[known] = static_cast<uint16_t>(previous);
      length[known] = static_cast<uint16_t>(length[previous] + 1);
      first[known] = first[previous];
      last[known] = first[code == known ? previous : code];
      if (++known == 1 << bits && bits < 12) ++bits;
    }
    previous = code;
    const size_t count = length[code];
    for (size_t i = count; i-- > 0; code = before[code])
      if (done + i < values.size()) values[done + i] = last[code];
    done += count;
  }
  return values;
}

Pixels gif_pixels(std::string_view data) {
  const Gif gif = gif_header(data);
  const std::vector<uint8_t> indices = lzw(data, gif);
  if (gif.palette.empty()) refuse("it has no table of colours");
  Pixels pixels = of_size(gif.height, gif.width, 3);
  const auto draw = [&](int64_t y, const uint8_t* row) {
    if (gif.top + y >= gif.height || gif.left >= gif.width) return;
    uint8_t* to = pixels.values.data() + ((gif.top + y) * gif.width + gif.left) * 3;
    for (int64_t x = 0; x < std::min(gif.columns, gif.width - gif.left); ++x) {
      if (row[x] == gif.transparent) continue;  // black
      if (size_t{3} * row[x] + 3 > gif.palette.size()) refuse("a pixel has a colour that is not in its table");
      std::memcpy(to + 3 * x, gif.palette.data() + 3 * row[x], 3);
    }
  };
  const uint8_t* row = indices.data();
  for (int pass = 0; pass < (gif.is_interlaced ? 4 : 1); ++pass) {
    const int64_t begin = gif.is_interlaced ? std::array{0, 4, 2, 1}[pass] : 0;
    const int64_t step = gif.is_interlaced ? std::array{8, 8, 4, 2}[pass] : 1;
    for (int64_t y = begin; y < gif.rows; y += step, row += gif.columns) draw(y, row);
  }
  return pixels;
}

// --- TFI ---

Pixels stored_pixels(std::string_view data, int64_t channels) {
  stored::Image image;
  if (const char* why = stored::read(data, image)) refuse(why);
  const bool is_copied = channels == 1 || image.kind == stored::Kind::rgb;
  if (image.kind == stored::Kind::rgb) channels = 3;
  Pixels pixels = of_size(image.height, image.width, channels);
  if (is_copied) {
    std::memcpy(pixels.values.data(), image.values, pixels.values.size());
  } else {
    for (int64_t y = 0; y < image.height; ++y)
      stored::rgb_row(image, y, 0, image.width, pixels.values.data() + y * image.width * 3);
  }
  return pixels;
}

// --- All formats ---

// Returns the Exif orientation of a TIFF header; 1 if it is not valid.
int orientation_of_tiff(std::string_view data) {
  if (data.size() < 10) return 1;
  const auto number = [&](size_t place, int bytes) {
    return data[0] == 'I' ? little(data, place, bytes) : big(data, place, bytes);
  };
  const size_t table = number(4, 4);
  if (table < 8 || table + 2 > data.size()) return 1;
  const size_t end = table + 2 + size_t{12} * number(table, 2);
  for (size_t entry = table + 2; entry < end && entry + 12 <= data.size(); entry += 12) {
    if (number(entry, 2) != 0x0112) continue;
    const uint32_t value = number(entry + 2, 2) == 3 ? number(entry + 8, 2) : number(entry + 8, 4);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

Pixels pixels_of(std::string_view data, [[maybe_unused]] int64_t channels, [[maybe_unused]] bool accurate,
                 [[maybe_unused]] const std::string& name) {
#ifdef TFHET_JPEG
  if (is_jpeg(data)) return jpeg_pixels(data, channels, accurate);
#else
  if (is_jpeg(data)) lacks(name, "JPEG", "libjpeg-dev");
#endif
#ifdef TFHET_PNG
  if (is_png(data)) return png_pixels(data, channels);
#else
  if (is_png(data)) lacks(name, "PNG", "libpng-dev");
#endif
#ifdef TFHET_WEBP
  if (is_webp(data)) return webp_pixels(data, name);
#else
  if (is_webp(data)) lacks(name, "WebP", "libwebp-dev");
#endif
  if (stored::is_stored(data)) return stored_pixels(data, channels);
  return is_gif(data) ? gif_pixels(data) : bmp_pixels(data);
}

// RGB to grey by ITU-R 601, as the stages do it.
void make_grey(Pixels& pixels) {
  const size_t count = static_cast<size_t>(pixels.height * pixels.width);
  uint8_t* values = pixels.values.data();
  for (size_t i = 0; i < count; ++i) {
    const uint8_t* from = values + 3 * i;
    values[i] = static_cast<uint8_t>((19595u * from[0] + 38470u * from[1] + 7471u * from[2] + 32768u) >> 16);
  }
  pixels.values.resize(count);
}

template <int CHANNELS>
void turn_pixels(const uint8_t* from, int64_t height, int64_t width, const Turn& turn, uint8_t* to) {
  // Steps in the image between neighbours of the result.
  int64_t down = CHANNELS * (turn.is_transposed ? 1 : width), right = CHANNELS * (turn.is_transposed ? width : 1);
  if (turn.is_transposed) std::swap(height, width);
  if (turn.is_inverted) from += down * (height - 1), down = -down;
  if (turn.is_mirrored) from += right * (width - 1), right = -right;
  // Rows that are written side by side, because a column of the image is read for each.
  const int64_t tile = turn.is_transposed ? 32 : 1;
  for (int64_t top = 0; top < height; top += tile)
    for (int64_t x = 0; x < width; ++x)
      for (int64_t y = top; y < std::min(top + tile, height); ++y)
        std::memcpy(to + (y * width + x) * CHANNELS, from + y * down + x * right, CHANNELS);
}

Pixels turned(const Pixels& pixels, int64_t channels, const Turn& turn) {
  Pixels result = turn.is_transposed ? of_size(pixels.width, pixels.height, channels)
                                     : of_size(pixels.height, pixels.width, channels);
  codecs::turn(pixels.values.data(), pixels.height, pixels.width, channels, turn, result.values.data());
  return result;
}

}  // namespace

Size size_of(std::string_view data) {
  try {
    if (is_jpeg(data)) return jpeg_size(data);
    if (is_png(data) && data.size() >= 24) {
      const Size size{big(data, 20, 4), big(data, 16, 4)};
      return size.height <= INT32_MAX && size.width <= INT32_MAX ? size : Size{};
    }
    if (is_webp(data)) return webp_size(data);
    if (is_bmp(data)) {
      const Bmp bmp = bmp_header(data);
      return {bmp.height, bmp.width};
    }
    if (is_gif(data)) {
      const Gif gif = gif_header(data);
      return {gif.height, gif.width};
    }
    if (stored::Image image; stored::is_stored(data) && !stored::read_header(data, image))
      return {image.height, image.width};
  } catch (const Refused&) {  // {0, 0}
  }
  return {};
}

int orientation_of(std::string_view data) {
  if (is_jpeg(data)) {
    for (size_t place = 2; place + 10 < data.size() && at(data, place) == 0xff;) {
      const unsigned marker = at(data, place + 1);
      if (marker == 0xd9 || marker == 0xda) break;
      const bool is_bare = marker == 0xff || marker == 0x01 || (marker >= 0xd0 && marker <= 0xd8);
      const size_t length = is_bare ? 0 : big(data, place + 2, 2);
      if (marker == 0xe1 && length >= 8 && data.substr(place + 4, 6) == std::string_view("Exif\0\0", 6))
        return orientation_of_tiff(data.substr(place + 10, length - 8));
      place += marker == 0xff ? 1 : 2 + length;
    }
  } else if (is_png(data)) {
    for (size_t place = 8; place + 12 <= data.size(); place += size_t{12} + big(data, place, 4))
      if (data.substr(place + 4, 4) == "eXIf") return orientation_of_tiff(data.substr(place + 8, big(data, place, 4)));
  } else if (is_webp(data) && data.substr(12, 4) == "VP8X") {
    for (size_t place = 12; place + 8 <= data.size();) {
      const size_t length = little(data, place + 4, 4);
      if (data.substr(place, 4) == "EXIF") {
        std::string_view tiff = data.substr(place + 8, length);
        if (tiff.substr(0, 6) == std::string_view("Exif\0\0", 6)) tiff.remove_prefix(6);  // some programs write it
        return orientation_of_tiff(tiff);
      }
      place += 8 + length + length % 2;
    }
  }
  return 1;
}

void turn(const uint8_t* from, int64_t height, int64_t width, int64_t channels, const Turn& turn, uint8_t* to) {
  channels == 1 ? turn_pixels<1>(from, height, width, turn, to) : turn_pixels<3>(from, height, width, turn, to);
}

namespace {

// Returns work(name), where the name is for errors. Throws Failure for a file that it refuses.
template <class Work>
auto named(std::string_view data, int64_t index, const Work& work) {
  const std::string name = "contents[" + std::to_string(index) + "]";
  const char* format = is_jpeg(data)             ? "JPEG"
                       : is_png(data)            ? "PNG"
                       : is_webp(data)           ? "WebP"
                       : is_bmp(data)            ? "BMP"
                       : is_gif(data)            ? "GIF"
                       : stored::is_stored(data) ? "TFI"
                                                 : nullptr;
  if (!format) invalid(name + " is no image file of a known format (JPEG, PNG, WebP, BMP, GIF, TFI)");
  try {
    return work(name);
  } catch (const Refused& refused) {
    invalid(name + " is no valid " + format + " image: " + refused.why);
  } catch (const std::bad_alloc&) {
    throw Failure{Code::resource_exhausted, name + ": no memory for the image"};
  }
}

}  // namespace

Pixels decode(std::string_view data, int64_t channels, bool upright, bool accurate, int64_t index) {
  if (channels != 1 && channels != 3) invalid("channels are 1 or 3, not " + std::to_string(channels));
  return named(data, index, [&](const std::string& name) {
    Pixels pixels = pixels_of(data, channels, accurate, name);
    if (channels == 1 && static_cast<int64_t>(pixels.values.size()) != pixels.height * pixels.width) make_grey(pixels);
    const Turn turn(upright ? orientation_of(data) : 1);
    return turn.is_none() ? std::move(pixels) : turned(pixels, channels, turn);
  });
}

Planes planes([[maybe_unused]] std::string_view data, [[maybe_unused]] bool accurate, [[maybe_unused]] int64_t index) {
#ifdef TFHET_JPEG
  if (is_jpeg(data)) {
    return named(data, index, [&](const std::string&) {
      Planes planes = jpeg_planes(data, accurate);
      const Turn turn(orientation_of(data));
      if (turn.is_none() || !planes[0].height) return planes;
      // With an odd side, a turn would move the colours by a pixel.
      if (planes[0].height % 2 || planes[0].width % 2) return Planes{};
      for (Pixels& plane : planes) plane = turned(plane, 1, turn);
      return planes;
    });
  }
#endif
  return {};
}

}  // namespace tfhet::codecs
