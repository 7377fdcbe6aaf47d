// Windows of JPEG images: only they are decoded, resized row by row, and mirrored where a flip is set.
//
// libjpeg-turbo transforms and colours only what lies in the window (jpeg_skip_scanlines, jpeg_crop_scanline), and
// nothing is read after its last row. The pixels equal the whole image decoded by TensorFlow. TensorFlow decodes files
// of other formats, and those whose Exif orientation is not upright.

#include <dlfcn.h>

#include <csetjmp>
#include <cstddef>
#include <cstdio>

#include <jpeglib.h>
#include <jerror.h>

#include "huffman.h"
#include "resample.h"

namespace {

using tfhet::Attributes;
using tfhet::Axis;
using tfhet::Context;
using tfhet::Input;
using tfhet::Sampling;
using tfhet::Window;

// How every libjpeg since version 6 begins its entropy decoder, which it does not tell.
struct LibjpegEntropy {
  void (*start_pass)(j_decompress_ptr);
  boolean (*decode_mcu)(j_decompress_ptr, JBLOCKROW*);
};

// Whether it is a function of libjpeg's: then its entropy decoder begins as we think.
bool in_libjpeg(const void* function) {
  Dl_info its, known;
  return function && dladdr(function, &its) && dladdr(reinterpret_cast<const void*>(&jpeg_read_header), &known) &&
         its.dli_fbase == known.dli_fbase;
}

constexpr int64_t MOST_PIXELS = int64_t{1} << 29;  // as TensorFlow has it
constexpr int MOST_SCANS = 500;                    // a progressive image needs about ten; crafted ones stall with more

bool is_jpeg(std::string_view data) {
  return data.size() >= 3 && data[0] == '\xff' && data[1] == '\xd8' && data[2] == '\xff';
}

unsigned at(std::string_view data, size_t place) { return static_cast<unsigned char>(data[place]); }

struct Size {
  int64_t height = 0, width = 0;
  bool known() const { return height > 0 && width > 0; }
};

// From the frame header, without decoding.
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
      return {at(data, place + 5) << 8 | at(data, place + 6), at(data, place + 7) << 8 | at(data, place + 8)};
    } else {
      place += 2 + (at(data, place + 2) << 8 | at(data, place + 3));
    }
  }
  return {};
}

// Exif orientation, 1 to 8, of a TIFF header; 1 without a valid one.
int orientation_of_tiff(std::string_view data) {
  const auto number = [&](size_t p, int width) {
    uint32_t found = 0;
    for (int i = 0; i < width; ++i) found |= at(data, p + i) << 8 * (data[0] == 'I' ? i : width - 1 - i);
    return found;
  };
  if (data.size() < 10) return 1;
  const size_t first = number(4, 4);
  if (first < 8 || first + 2 > data.size()) return 1;
  for (size_t entry = first + 2, end = entry + 12 * number(first, 2); entry < end && entry + 12 <= data.size(); entry += 12) {
    if (number(entry, 2) != 0x0112) continue;
    const uint32_t value = number(entry + 2, 2) == 3 ? number(entry + 8, 2) : number(entry + 8, 4);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

// Of the block Exif of a JPEG file, or of the chunk eXIf of a PNG file.
int orientation_of(std::string_view data) {
  const auto big = [&](size_t p, int width) {
    uint32_t found = 0;
    for (int i = 0; i < width; ++i) found = found << 8 | at(data, p + i);
    return found;
  };
  if (is_jpeg(data)) {
    for (size_t place = 2; place + 10 < data.size() && at(data, place) == 0xff;) {
      const unsigned marker = at(data, place + 1);
      if (marker == 0xd9 || marker == 0xda) break;
      const bool bare = marker == 0xff || marker == 0x01 || (marker >= 0xd0 && marker <= 0xd8);
      const size_t length = bare ? 0 : big(place + 2, 2);
      if (marker == 0xe1 && length >= 8 && data.substr(place + 4, 6) == std::string_view("Exif\0\0", 6))
        return orientation_of_tiff(data.substr(place + 10, length - 8));
      place += marker == 0xff ? 1 : 2 + length;
    }
  } else if (data.substr(0, 4) == "\x89PNG") {
    for (size_t place = 8; place + 12 <= data.size(); place += size_t{12} + big(place, 4))
      if (data.substr(place + 4, 4) == "eXIf") return orientation_of_tiff(data.substr(place + 8, big(place, 4)));
  }
  return 1;
}

Size size_of(std::string_view data) {
  const auto big = [&](size_t p) {
    return int64_t{at(data, p)} << 24 | at(data, p + 1) << 16 | at(data, p + 2) << 8 | at(data, p + 3);
  };
  const auto little = [&](size_t p) {
    return static_cast<int32_t>(at(data, p) | at(data, p + 1) << 8 | at(data, p + 2) << 16 | at(data, p + 3) << 24);
  };
  if (is_jpeg(data)) return jpeg_size(data);
  if (data.size() >= 24 && data.substr(0, 8) == "\x89PNG\r\n\x1a\n") {
    const Size size{big(20), big(16)};
    return size.height <= INT32_MAX && size.width <= INT32_MAX ? size : Size{};
  }
  if (data.size() >= 26 && data.substr(0, 2) == "BM") return {std::abs(int64_t{little(22)}), little(18)};
  if (data.size() >= 10 && data.substr(0, 4) == "GIF8")
    return {at(data, 8) | at(data, 9) << 8, at(data, 6) | at(data, 7) << 8};
  return {};
}

class Sizes {
 public:
  explicit Sizes(const Attributes& attributes) : upright_(attributes.flag("upright")) {}

  void compute(Context& context) const {
    const Input contents = context.input(0);
    contents.with_rank(1, "contents");
    int32_t* to = context.output<int32_t>(0, {contents.shape[0], 2});
    for (int64_t i = 0; i < contents.shape[0]; ++i) {
      const Size size = size_of(contents.bytes(i));
      if (!size.known())
        tfhet::invalid("contents[" + std::to_string(i) +
                       "] states no size: not a JPEG, PNG, BMP or GIF image, or cut off");
      const bool turned = upright_ && orientation_of(contents.bytes(i)) >= 5;
      to[2 * i + turned] = static_cast<int32_t>(size.height);
      to[2 * i + !turned] = static_cast<int32_t>(size.width);
    }
  }

 private:
  bool upright_;
};

// One for each thread. An error of libjpeg jumps to `back`, past frames that hold nothing to be destroyed.
class Decompressor {
 public:
  Decompressor() {
    info.err = jpeg_std_error(&errors_);
    errors_.error_exit = &fail;
    errors_.emit_message = [](j_common_ptr, int) {};
    errors_.output_message = [](j_common_ptr) {};
    source_.init_source = [](j_decompress_ptr) {};
    source_.term_source = [](j_decompress_ptr) {};
    source_.resync_to_restart = &jpeg_resync_to_restart;
    source_.fill_input_buffer = [](j_decompress_ptr info) -> boolean { cut_off(info); };
    source_.skip_input_data = [](j_decompress_ptr info, long count) {
      if (count <= 0) return;
      if (static_cast<size_t>(count) > info->src->bytes_in_buffer) cut_off(info);
      info->src->next_input_byte += count;
      info->src->bytes_in_buffer -= count;
    };
    progress_.progress_monitor = [](j_common_ptr common) {
      auto* info = reinterpret_cast<j_decompress_ptr>(common);
      if (info->input_scan_number > MOST_SCANS) of(info)->refuse("more than 500 scans");
    };
    info.client_data = this;
  }
  ~Decompressor() { jpeg_destroy_decompress(&info); }
  Decompressor(const Decompressor&) = delete;
  Decompressor& operator=(const Decompressor&) = delete;

  // Again with libjpeg's own entropy decoder: back in `setjmp` with AGAIN.
  static constexpr int FAILED = 1, AGAIN = 2;

  // Replaces libjpeg's entropy decoder for ordinary images. To be called after jpeg_start_decompress.
  void quicken(int64_t left, int64_t right) {
    if (!entropy_.start(&info, left, right)) return;
    auto* theirs = reinterpret_cast<LibjpegEntropy*>(info.entropy);
    static const bool known = in_libjpeg(reinterpret_cast<const void*>(theirs->start_pass)) &&
                              in_libjpeg(reinterpret_cast<const void*>(theirs->decode_mcu));
    if (!known) return;
    theirs->decode_mcu = [](j_decompress_ptr info, JBLOCKROW* to) -> boolean {
      if (!of(info)->entropy_.next(to)) std::longjmp(of(info)->back, AGAIN);
      return TRUE;
    };
  }

  void open(std::string_view data) {
    // Anew, for an image that lacks a table must not be decoded with that of the one before.
    jpeg_destroy_decompress(&info);
    jpeg_create_decompress(&info);
    source_.next_input_byte = reinterpret_cast<const JOCTET*>(data.data());
    source_.bytes_in_buffer = data.size();
    info.src = &source_;
    info.progress = &progress_;
    message[0] = '\0';
  }

  [[noreturn]] void refuse(const char* why) {
    std::snprintf(message, sizeof(message), "%s", why);
    std::longjmp(back, FAILED);
  }

  jpeg_decompress_struct info{};
  std::jmp_buf back;
  char message[JMSG_LENGTH_MAX] = "";

 private:
  static Decompressor* of(j_decompress_ptr info) { return static_cast<Decompressor*>(info->client_data); }
  [[noreturn]] static void cut_off(j_decompress_ptr info) { of(info)->refuse("the data end before the image does"); }
  [[noreturn]] static void fail(j_common_ptr common) {
    Decompressor* self = static_cast<Decompressor*>(common->client_data);
    common->err->format_message(common, self->message);
    std::longjmp(self->back, FAILED);
  }

  tfhet::EntropyDecoder entropy_;
  jpeg_error_mgr errors_{};
  jpeg_source_mgr source_{};
  jpeg_progress_mgr progress_{};
};

// The rows of the image from pixel `left` on, decoded when they are asked for.
struct Rows {
  Decompressor& decompressor;
  uint8_t* ring;     // [taps, line]
  uint8_t* inks;     // a row before its four inks have become three colours; nullptr: it needs none of that
  int64_t taps;      // rows that are kept
  int64_t line;      // bytes of one in memory
  int64_t offset;    // bytes before the first that counts
  int64_t next;      // the row that is decoded next

  const uint8_t* operator()(int64_t y) {
    while (next <= y) {
      uint8_t* row = ring + next % taps * line;
      JSAMPROW to = inks ? inks : row;
      if (jpeg_read_scanlines(&decompressor.info, &to, 1) != 1) decompressor.refuse("no more rows can be had");
      if (inks) colour(row);
      ++next;
    }
    return ring + y % taps * line + offset;
  }

  // As TensorFlow has it. Adobe's programs store inks the other way round.
  void colour(uint8_t* row) const {
    const bool inverted = decompressor.info.saw_Adobe_marker;
    for (int64_t x = 0; x < decompressor.info.output_width; ++x) {
      const int black = inks[4 * x + 3];
      for (int c = 0; c < 3; ++c) {
        const int ink = inks[4 * x + c];
        row[3 * x + c] = static_cast<uint8_t>(inverted ? black * ink / 255 : (255 - ink) * (255 - black) / 255);
      }
    }
  }
};

class DecodeWindows {
 public:
  explicit DecodeWindows(const Attributes& attributes)
      : height_(attributes.integer("height")),
        width_(attributes.integer("width")),
        channels_(attributes.integer("channels")),
        upright_(attributes.flag("upright")),
        dct_(attributes.flag("accurate") ? JDCT_ISLOW : JDCT_IFAST),
        sampling_{attributes.flag("antialias"), attributes.flag("confined")} {
    if (height_ < 1 || width_ < 1) tfhet::invalid("height and width are at least 1");
    if (channels_ != 1 && channels_ != 3) tfhet::invalid("channels are 1 or 3, not " + std::to_string(channels_));
  }

  void compute(Context& context) const {
    const Input contents = context.input(0), windows = context.input(1), flips = context.input(2);
    contents.with_rank(1, "contents");
    const int64_t batch = contents.shape[0], step = height_ * width_ * channels_;
    if (windows.shape != tfhet::Shape{batch, 4}) tfhet::invalid("windows are [batch, 4]");
    if (flips.shape != tfhet::Shape{batch}) tfhet::invalid("flips are [batch]");
    uint8_t* to = context.output<uint8_t>(0, {batch, height_, width_, channels_});
    std::vector<int32_t> others, turns;
    for (int64_t i = 0; i < batch; ++i) {
      const std::string_view data = contents.bytes(i);
      const int turn = upright_ ? orientation_of(data) : 1;
      if (is_jpeg(data) && turn == 1) {
        try {
          image(data, windows.data<float>() + 4 * i, flips.data<bool>()[i], i, to + i * step);
        } catch (const std::bad_alloc&) {
          throw tfhet::Failure{TF_RESOURCE_EXHAUSTED, "contents[" + std::to_string(i) + "]: no memory for the rows"};
        }
      } else {
        others.push_back(static_cast<int32_t>(i));
        turns.push_back(turn);
        std::memset(to + i * step, 0, step);
      }
    }
    const tfhet::Shape rest{static_cast<int64_t>(others.size())};
    std::copy(others.begin(), others.end(), context.output<int32_t>(1, rest));
    std::copy(turns.begin(), turns.end(), context.output<int32_t>(2, rest));
  }

 private:
  void image(std::string_view data, const float* numbers, bool flip, int64_t index, uint8_t* to) const {
    thread_local Decompressor decompressor;
    const Size size = jpeg_size(data);
    if (!size.known()) fail(index, "no frame header");
    const Window window = Window::of(numbers, index, size.height, size.width);
    int ended = decoded(decompressor, data, size, window, flip, true, to);
    if (ended == Decompressor::AGAIN) ended = decoded(decompressor, data, size, window, flip, false, to);
    if (ended) fail(index, decompressor.message);
  }

  [[noreturn]] static void fail(int64_t index, const char* why) {
    tfhet::invalid("contents[" + std::to_string(index) + "] is no valid JPEG image: " + why);
  }

  // 0, or one of the decompressor's numbers. Nothing here or below may need a destructor.
  int decoded(Decompressor& decompressor, std::string_view data, Size size, Window window, bool flip, bool quick,
              uint8_t* to) const {
    jpeg_decompress_struct& info = decompressor.info;
    switch (setjmp(decompressor.back)) {
      case 0: break;
      case Decompressor::AGAIN: return Decompressor::AGAIN;
      default: jpeg_abort_decompress(&info); return Decompressor::FAILED;  // a large image's memory goes back
    }
    decompressor.open(data);
    jpeg_read_header(&info, TRUE);
    if (info.image_height != size.height || info.image_width != size.width) decompressor.refuse("two frame headers");
    if (size.height * size.width >= MOST_PIXELS) decompressor.refuse("too large: 2**29 pixels or more");
    const bool inks = info.jpeg_color_space == JCS_CMYK || info.jpeg_color_space == JCS_YCCK;
    info.out_color_space = channels_ == 1 ? JCS_GRAYSCALE : inks ? JCS_CMYK : JCS_RGB;
    info.dct_method = dct_;
    jpeg_start_decompress(&info);

    const int64_t rows = info.output_height, columns = info.output_width;
    const Axis y = tfhet::axis<1>(window.top, window.height, height_, rows, sampling_, false);
    const Axis x = tfhet::axis<2>(window.left, window.width, width_, columns, sampling_, flip);
    // With a margin: at the edge of what is decoded, colours lack the neighbour that smooths them.
    JDIMENSION left = static_cast<JDIMENSION>(std::max<int64_t>(0, x.begin - MARGIN));
    const int64_t right = std::min<int64_t>(columns, x.end + MARGIN);
    JDIMENSION width = static_cast<JDIMENSION>(right - left);
    if (width < columns) jpeg_crop_scanline(&info, &left, &width);
    if (quick) decompressor.quicken(left, int64_t{left} + info.output_width);
    if (y.begin > 0) jpeg_skip_scanlines(&info, static_cast<JDIMENSION>(y.begin));
    // libjpeg-turbo writes a row that begins at a multiple of 32 bytes past the caches (movntdq in its jdcolext), and
    // ours are read at once: where rows happened to lie so, a batch took a quarter longer.
    const int64_t line = (int64_t{info.output_width} * channels_ + 31) & ~int64_t{31};
    const int64_t kept = std::max<int64_t>(1, y.taps);
    uint8_t* memory = tfhet::scratch<uint8_t, 6>(kept * line + 32 + 64);
    Rows image{decompressor,
               memory + ((UNALIGNED - reinterpret_cast<uintptr_t>(memory)) & 31),
               inks && channels_ == 3 ? tfhet::scratch<uint8_t, 7>(int64_t{info.output_width} * 4) : nullptr,
               kept,
               line,
               (x.begin - left) * channels_,
               y.begin};
    if (channels_ == 1) {
      tfhet::resample<1>(image, y, x, 1, !sampling_.antialias, to);
    } else {
      tfhet::resample<3>(image, y, x, 3, !sampling_.antialias, to);
    }
    jpeg_abort_decompress(&info);  // gives its memory back
    return 0;
  }

  static constexpr int64_t MARGIN = 8;  // pixels; also keeps what is decoded wider than the smoothing needs
  static constexpr uintptr_t UNALIGNED = 8;

  int64_t height_, width_, channels_;
  bool upright_;
  J_DCT_METHOD dct_;
  Sampling sampling_;
};

const tfhet::Op<Sizes> sizes{"TfhetImageSizes", {"contents: string"}, {"sizes: int32"}, {"upright: bool"}};
const tfhet::Op<DecodeWindows> decode_windows{
    "TfhetDecodeWindows",
    {"contents: string", "windows: float", "flips: bool"},
    {"images: uint8", "others: int32", "turns: int32"},
    {"height: int", "width: int", "channels: int", "upright: bool", "accurate: bool", "antialias: bool", "confined: bool"}};

}  // namespace
