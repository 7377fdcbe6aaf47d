// The stage `decode`, and decoding of windows of image files: tfhet/stages/decoding.py specifies them.
//
// Of a JPEG file that needs no turn only the window is decoded, straight into the result; of one that is turned, only if
// it is decoded at a reduced size. Of a TFI file only the window is read. All other files are decoded whole.

#include "codecs.h"
#include "geometry.h"
#include "stored.h"
#if __has_include(<jpeglib.h>)
#include "jpeg.h"
#define TFHET_JPEG
#endif

namespace tfhet {

namespace {

class Decode : public Decoder {
 public:
  explicit Decode(const Config& config)
      : channels_(config.integer("channels")),
        is_upright_(config.flag("upright")),
        is_accurate_(config.flag("accurate")),
        is_reduced_(config.flag("reduced")) {
    if (channels_ != 1 && channels_ != 3) invalid("stage decode: channels are 1 or 3, not " + std::to_string(channels_));
  }

  // The size of each image is in its file.
  Form output(const Form& form) const override {
    check(form);
    return {Type::uint8, 0, 0, channels_};
  }
  Form output_of(const Image& image) const override {
    check(image.form);
    const codecs::Size size = codecs::size_of(image.file);
    if (!size.known())
      invalid("contents[" + std::to_string(image.index) +
              "] states no size: not a JPEG, PNG, BMP, GIF, WebP or TFI image, or cut off");
    const bool is_turned = is_upright_ && codecs::orientation_of(image.file) >= 5;
    return {Type::uint8, is_turned ? size.width : size.height, is_turned ? size.height : size.width, channels_};
  }
  Image apply(const Image& image, Arena& arena, const Slot*) const override {
    check(image.form);
    const codecs::Pixels pixels = whole(image);
    Image result = arena.make({Type::uint8, pixels.height, pixels.width, channels_}, image);
    std::memcpy(result.data, pixels.values.data(), result.form.bytes());
    return result;
  }
  Image window(const Image& file, Arena& arena, const WindowStage& stage, const Part& part, bool flip) const override {
    check(file.form);
    Image result = arena.make({Type::uint8, stage.height, stage.width, channels_}, file);
#ifdef TFHET_JPEG
    jpeg::WindowDecoder decoder{stage.height, stage.width, channels_, is_accurate_, is_reduced_, stage.scaling};
    codecs::Turn turn(is_upright_ ? codecs::orientation_of(file.file) : 1);
    if (jpeg::is_jpeg(file.file) && turn.is_none()) {
      decoder.image(file.file, &part.top, flip, file.index, result.values<uint8_t>());
      return result;
    }
    if (jpeg::is_jpeg(file.file) && decoder.reduction(part.height, part.width) > 1) {
      const Part unturned = in_file(part, output_of(file), turn);
      if (turn.is_transposed) std::swap(decoder.height, decoder.width);
      uint8_t* const pixels = scratch<uint8_t, 40>(result.form.values());
      decoder.image(file.file, &unturned.top, false, file.index, pixels);
      turn.is_mirrored ^= flip;
      codecs::turn(pixels, decoder.height, decoder.width, channels_, turn, result.values<uint8_t>());
      return result;
    }
#endif
    if (stored::is_stored(file.file) && stored_window(file, stage, part, flip, result.values<uint8_t>())) return result;
    const codecs::Pixels pixels = whole(file);
    resize::resize_window<uint8_t>(pixels.values.data(), pixels.height, pixels.width, channels_, &part.top, file.index,
                                   flip, stage.height, stage.width, stage.scaling, result.values<uint8_t>());
    return result;
  }

 private:
  static void check(const Form& form) {
    if (form.type != Type::file) invalid("stage decode: the images are already decoded: omit it");
  }
  // Returns the part of the image in the file that is `part` after the turn. form: of the turned image.
  static Part in_file(const Part& part, const Form& form, const codecs::Turn& turn) {
    const float top = turn.is_inverted ? static_cast<float>(form.height) - part.top - part.height : part.top;
    const float left = turn.is_mirrored ? static_cast<float>(form.width) - part.left - part.width : part.left;
    return turn.is_transposed ? Part{left, top, part.width, part.height} : Part{top, left, part.height, part.width};
  }
  // Returns whether it is a TFI file that is used without a copy of the whole image.
  bool stored_window(const Image& file, const WindowStage& stage, const Part& part, bool flip, uint8_t* to) const {
    stored::Image image;
    if (stored::read(file.file, image)) return false;  // `whole` refuses it
    const bool is_rgb = image.kind == stored::Kind::rgb;
    if (is_rgb && channels_ == 1) return false;
    const resize::Axes axes(&part.top, file.index, image.height, image.width, flip, stage.height, stage.width, stage.scaling);
    if (is_rgb || channels_ == 1) {
      resize::resize_axes(image.values, image.width, channels_, axes, stage.scaling, to);
    } else {
      stored::Rows rows(image, axes.x.begin, axes.x.end, axes.y.begin, axes.y.taps);
      resample<3>(rows, axes.y, axes.x, 3, !stage.scaling.antialias, to);
    }
    return true;
  }
  codecs::Pixels whole(const Image& image) const {
    return codecs::decode(image.file, channels_, is_upright_, is_accurate_, image.index);
  }

  int64_t channels_;
  bool is_upright_, is_accurate_, is_reduced_;
};

const Registered<Decode> decode{"decode"};

}  // namespace

}  // namespace tfhet
