// The kinds of steps: one stage, or several stages that run as one operation. tfhet/stages/fusion.py decides which.

#include "chain.h"
#include "geometry.h"
#include "tone.h"

namespace tfhet {

namespace {

class Single : public Step {
 public:
  explicit Single(const Config& config) : Step(config), stage_(*members[0].stage) {
    if (members.size() != 1) throw Failure{Code::internal, "a single step has one stage"};
  }
  Form output(const Form& form) const override { return stage_.output(form); }
  Image run(const Image& image, Arena& arena, const Slot* drawn) const override { return stage_.apply(image, arena, drawn); }
  bool has_partner() const override { return stage_.has_partner(); }
  uint64_t path(const Slot* drawn) const override { return stage_.path(drawn); }
  Image paired(const Image& image, const Image& other, Arena& arena, const Slot* drawn) const override {
    return stage_.paired(image, other, arena, drawn);
  }

 private:
  const Stage& stage_;
};

// Stages that are straight lines with ends and lead to float32. Levels are not rounded between the stages.
class Straight : public Step {
 public:
  explicit Straight(const Config& config) : Step(config) {}

  Image run(const Image& image, Arena& arena, const Slot* drawn) const override {
    const int64_t channels = image.form.channels;
    float* total = scratch<float, 21>(4 * channels);
    float* next = scratch<float, 22>(4 * channels);
    Image before = image;
    for (size_t i = 0; i < members.size(); ++i) {
      members[i].stage->line(before, drawn + members[i].first, i == 0 ? total : next);
      if (i > 0) then(total, next, channels);
      before.form = members[i].stage->output(before.form);
    }
    Image result = arena.make(before.form, image);
    image.typed([&](auto* from) { tone::line(from, result.values<float>(), image.form.pixels(), channels, total); });
    return result;
  }

 private:
  // Makes `line` the line that applies it and then `other`; only its four numbers are rounded.
  static void then(float* line, const float* other, int64_t channels) {
    for (int64_t channel = 0; channel < channels; ++channel) {
      const auto of = [&](auto* numbers, int part) -> auto& { return numbers[part * channels + channel]; };
      const float scale = of(other, 0), offset = of(other, 1), least = of(other, 2), most = of(other, 3);
      // Never 0 times an infinite end: a scale of 0 makes every value the offset.
      const auto moved = [&](float end) { return (scale == 0.0f ? 0.0f : end * scale) + offset; };
      const float one = moved(of(line, 2)), two = moved(of(line, 3));
      const auto between = [&](float end) { return std::min(std::max(end, least), most); };
      of(line, 0) *= scale;
      of(line, 1) = of(line, 1) * scale + offset;
      of(line, 2) = between(std::min(one, two));  // a negative scale exchanges the ends
      of(line, 3) = between(std::max(one, two));
    }
  }
};

// Pointwise stages of uint8 images as one look-up table: the stages, applied to the ramp of all 256 levels.
class Table : public Step {
 public:
  explicit Table(const Config& config) : Step(config) {}

  Image run(const Image& image, Arena& arena, const Slot* drawn) const override {
    thread_local Arena own;
    const int64_t channels = image.form.channels;
    uint8_t* ramp = scratch<uint8_t, 23>(256 * channels);
    for (int64_t i = 0; i < 256 * channels; ++i) ramp[i] = static_cast<uint8_t>(i / channels);
    Image levels{{Type::uint8, 1, 256, channels}, ramp, 256 * channels, {}, image.index};
    for (const Member& member : members) levels = member.stage->apply(levels, own, drawn + member.first);
    Form form = image.form;
    form.type = levels.form.type;
    Image result = arena.make(form, image);
    levels.typed([&](const auto* table) {
      using T = std::remove_const_t<std::remove_pointer_t<decltype(table)>>;
      tone::lookup(image.values<uint8_t>(), result.values<T>(), image.form.pixels(), channels, table, channels);
    });
    return result;
  }
};

// Stages that only move pixels and have the same fill, as one bilinear sampling.
class Sampled : public Step {
 public:
  explicit Sampled(const Config& config)
      : Step(config), filling_(config.text("fill"), config.number("value")) {}

  Image run(const Image& image, Arena& arena, const Slot* drawn) const override {
    Form form = image.form;
    Transform total = members[0].stage->transform(form, drawn + members[0].first);
    form = members[0].stage->output(form);
    for (size_t i = 1; i < members.size(); ++i) {
      total = composed(total, members[i].stage->transform(form, drawn + members[i].first));
      form = members[i].stage->output(form);
    }
    return sampled(image, arena, total, filling_, form.height, form.width);
  }

 private:
  Filling filling_;
};

// A part of each image, perhaps in its file, and perhaps a horizontal flip: only the part is decoded and resized.
class WindowStep : public Step {
 public:
  explicit WindowStep(const Config& config) : Step(config) {
    size_t at = 0;
    decoder_ = dynamic_cast<const Decoder*>(members[0].stage.get());
    if (decoder_) ++at;
    window_ = at < members.size() ? dynamic_cast<const WindowStage*>(members[at].stage.get()) : nullptr;
    if (!window_) throw Failure{Code::internal, "a window step without a window"};
    place_ = at++;
    if (at < members.size()) flip_ = members[at].first, has_flip_ = true;
    if (at + 1 < members.size()) throw Failure{Code::internal, "a window step with more than a flip"};
  }

  Image run(const Image& image, Arena& arena, const Slot* drawn) const override {
    const bool flip = has_flip_ && drawn[flip_].flag();
    const Slot* own = drawn + members[place_].first;
    if (!decoder_) return window_->resized(image, arena, own, flip);
    return decoder_->window(image, arena, *window_, window_->part(decoder_->output_of(image), own), flip);
  }

 private:
  const Decoder* decoder_;
  const WindowStage* window_;
  size_t place_;
  int64_t flip_ = 0;
  bool has_flip_ = false;
};

}  // namespace

std::unique_ptr<Step> make_step(const Config& config) {
  if (config.name == "single") return std::make_unique<Single>(config);
  if (config.name == "straight") return std::make_unique<Straight>(config);
  if (config.name == "table") return std::make_unique<Table>(config);
  if (config.name == "sampling") return std::make_unique<Sampled>(config);
  if (config.name == "window") return std::make_unique<WindowStep>(config);
  throw Failure{Code::internal, "unknown kind of step: " + config.name};
}

}  // namespace tfhet
