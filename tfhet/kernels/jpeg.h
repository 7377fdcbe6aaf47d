// Windows of JPEG images: only the window is decoded, resized row by row, and mirrored if a flip is set.
//
// libjpeg-turbo transforms and colours only the window (jpeg_skip_scanlines, jpeg_crop_scanline), and nothing is read
// after its last row. The pixels equal the whole image decoded by TensorFlow, unless the decoder is reduced. Files of
// other formats need another decoder, and the caller turns the result by the Exif orientation of its file.

#pragma once

#include <dlfcn.h>

#include <csetjmp>
#include <cstddef>
#include <cstdio>
#include <new>
#include <string_view>

#include <jpeglib.h>
#include <jerror.h>

#include "codecs.h"
#include "huffman.h"
#include "resample.h"

namespace tfhet::jpeg {

// How every libjpeg since version 6 begins its entropy decoder, which it does not tell.
struct LibjpegEntropy {
  void (*start_pass)(j_decompress_ptr);
  boolean (*decode_mcu)(j_decompress_ptr, JBLOCKROW*);
};

// Whether it is a function of libjpeg's: then its entropy decoder begins as we think.
inline bool in_libjpeg(const void* function) {
  Dl_info its, known;
  return function && dladdr(function, &its) && dladdr(reinterpret_cast<const void*>(&jpeg_read_header), &known) &&
         its.dli_fbase == known.dli_fbase;
}

inline constexpr int64_t MOST_PIXELS = int64_t{1} << 29;  // as in TensorFlow
inline constexpr int MOST_SCANS = 500;  // a progressive image needs about ten; crafted ones stall with more

inline bool is_jpeg(std::string_view data) {
  return data.size() >= 3 && data[0] == '\xff' && data[1] == '\xd8' && data[2] == '\xff';
}

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

  EntropyDecoder entropy_;
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

// Decodes a window of a JPEG image, resizes it to height x width, and mirrors it if `flip` is set. Several threads may
// use one object.
struct WindowDecoder {
  int64_t height, width, channels;
  bool accurate;  // the slower and more exact inverse DCT
  bool reduced;   // whether large windows are decoded at 1/2, 1/4 or 1/8 of their size
  Sampling sampling;

  // Throws if a number is out of range.
  void check() const {
    if (height < 1 || width < 1) invalid("height and width are at least 1");
    if (channels != 1 && channels != 3) invalid("channels are 1 or 3, not " + std::to_string(channels));
  }

  // Returns 1, 2, 4 or 8: what the sides of the image are divided by as it is decoded. A window of rows x columns keeps
  // at least height x width pixels. Other divisors do not pay: libjpeg-turbo has vector code for these four only, and
  // 5/8 to 7/8 take longer than the full size.
  int reduction(double rows, double columns) const {
    int by = 1;
    while (reduced && by < 8 && rows >= 2.0 * by * height && columns >= 2.0 * by * width) by *= 2;
    return by;
  }

  // window: top, left, height, width, in pixels of the file. index: of the image, for the message of an error. to:
  // [height, width, channels].
  void image(std::string_view data, const float* window, bool flip, int64_t index, uint8_t* to) const {
    try {
      decode(data, window, flip, index, to);
    } catch (const std::bad_alloc&) {
      throw Failure{Code::resource_exhausted, "contents[" + std::to_string(index) + "]: no memory for the rows"};
    }
  }

 private:
  void decode(std::string_view data, const float* numbers, bool flip, int64_t index, uint8_t* to) const {
    thread_local Decompressor decompressor;
    const codecs::Size size = codecs::size_of(data);
    if (!size.known()) fail(index, "no frame header");
    const Window window = Window::of(numbers, index, size.height, size.width);
    int ended = decoded(decompressor, data, size, window, flip, true, to);
    if (ended == Decompressor::AGAIN) ended = decoded(decompressor, data, size, window, flip, false, to);
    if (ended) fail(index, decompressor.message);
  }

  [[noreturn]] static void fail(int64_t index, const char* why) {
    invalid("contents[" + std::to_string(index) + "] is no valid JPEG image: " + why);
  }

  // 0, or one of the decompressor's numbers. Nothing here or below may need a destructor.
  int decoded(Decompressor& decompressor, std::string_view data, codecs::Size size, Window window, bool flip, bool quick,
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
    info.out_color_space = channels == 1 ? JCS_GRAYSCALE : inks ? JCS_CMYK : JCS_RGB;
    info.dct_method = accurate ? JDCT_ISLOW : JDCT_IFAST;
    const int by = reduction(window.height, window.width);
    info.scale_num = 1;
    info.scale_denom = static_cast<unsigned>(by);
    jpeg_start_decompress(&info);

    // A pixel of a reduced image is the mean of by x by pixels from a multiple of `by` on, so edges of pixels, in which
    // windows are given, are divided. The last row and column may cover less.
    window = window.divided(by);
    const int64_t rows = info.output_height, columns = info.output_width;
    const Axis y = axis<1>(window.top, window.height, height, rows, sampling, false);
    const Axis x = axis<2>(window.left, window.width, width, columns, sampling, flip);
    // With a margin: at the edge of what is decoded, colours lack the neighbour that smooths them.
    const bool is_cut = by == 1 || can_cut_reduced(info);
    JDIMENSION left = is_cut ? static_cast<JDIMENSION>(std::max<int64_t>(0, x.begin - MARGIN)) : 0;
    const int64_t right = is_cut ? std::min<int64_t>(columns, x.end + MARGIN) : columns;
    JDIMENSION span = static_cast<JDIMENSION>(right - left);
    if (span < columns) jpeg_crop_scanline(&info, &left, &span);
    if (quick) decompressor.quicken(by * int64_t{left}, by * (int64_t{left} + info.output_width));
    if (y.begin > 0) jpeg_skip_scanlines(&info, static_cast<JDIMENSION>(y.begin));
    // libjpeg-turbo writes a row that begins at a multiple of 32 bytes past the caches (movntdq in its jdcolext), and
    // ours are read at once: where rows happened to lie so, a batch took a quarter longer.
    const int64_t line = (int64_t{info.output_width} * channels + 31) & ~int64_t{31};
    const int64_t kept = std::max<int64_t>(1, y.taps);
    uint8_t* memory = scratch<uint8_t, 6>(kept * line + 32 + 64);
    Rows image{decompressor,
               memory + ((UNALIGNED - reinterpret_cast<uintptr_t>(memory)) & 31),
               inks && channels == 3 ? scratch<uint8_t, 7>(int64_t{info.output_width} * 4) : nullptr,
               kept,
               line,
               (x.begin - left) * channels,
               y.begin};
    if (channels == 1) {
      resample<1>(image, y, x, 1, !sampling.antialias, to);
    } else {
      resample<3>(image, y, x, 3, !sampling.antialias, to);
    }
    jpeg_abort_decompress(&info);  // gives its memory back
    return 0;
  }

  // Whether no colour has less than half of the columns: else jpeg_crop_scanline of a reduced image loses colour.
  static bool can_cut_reduced(const jpeg_decompress_struct& info) {
    for (int i = 0; i < info.num_components; ++i)
      if (2 * info.comp_info[i].h_samp_factor < info.max_h_samp_factor) return false;
    return true;
  }

  static constexpr int64_t MARGIN = 8;  // pixels; also keeps what is decoded wider than the smoothing needs
  static constexpr uintptr_t UNALIGNED = 8;
};

}  // namespace tfhet::jpeg
