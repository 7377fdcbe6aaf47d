// A stage: what it draws for an example, and what it does to one image.
//
// A stage is a class with a constructor that takes its Config. `static const tfhet::Registered<Flip> flip{"random_flip"};`
// makes it known. Objects are constant: many threads use one at the same time.

#pragma once

#include <functional>
#include <memory>

#include "config.h"
#include "image.h"
#include "splitmix.h"

namespace tfhet {

// One drawn value: a number (float32, int32 and bool fit into a double), or 64 random bits.
union Slot {
  double number;
  uint64_t word;

  float single() const { return static_cast<float>(number); }
  // 0 for a number that no int32 holds: a slot may hold anything that a user passed.
  int64_t integer() const { return number > -0x1p31 - 1.0 && number < 0x1p31 ? static_cast<int64_t>(number) : 0; }
  bool flag() const { return number != 0.0; }
  // Returns a number from 0 to before `end`. Raises Failure for any other, with the parameter's name.
  int64_t index(int64_t end, const char* name) const {
    if (!(number >= 0.0 && number < static_cast<double>(end)))
      invalid(std::string(name) + " is from 0 to " + std::to_string(end - 1) + ", not " + std::to_string(number));
    return static_cast<int64_t>(number);
  }
};

// A parameter that a stage draws: one slot or several.
struct Parameter {
  std::string name;
  char kind;  // 'f' float32, 'i' int32, 'b' bool, 'u' uint64
  int64_t count = 1;
  bool is_vector = false;  // of rank 1, even with one value
};

// Random numbers of a key: see tfhet/stages/randomness.py.
struct Key {
  uint64_t state;

  uint64_t bits(uint64_t draw) const { return absorb(state, draw); }
  // In [low, high); high itself only where float32 rounds up to it.
  float uniform(uint64_t draw, double low = 0.0, double high = 1.0) const {
    const float unit = static_cast<float>(bits(draw) >> 40) * 0x1p-24f;
    return static_cast<float>(low) + unit * static_cast<float>(high - low);
  }
  int32_t below(uint64_t draw, int64_t end) const {
    const int32_t found = static_cast<int32_t>(uniform(draw, 0.0, static_cast<double>(end)));
    return found < end ? found : static_cast<int32_t>(end - 1);
  }
  bool bernoulli(uint64_t draw, double probability = 0.5) const { return uniform(draw) < static_cast<float>(probability); }
};

// The function min(max(scale * x + offset, low), high) of each channel: numbers [4, channels].
struct Line {
  std::vector<float> numbers;
};

// Sends the output point (x, y) to ((t0 x + t1 y + t2) / k, (t3 x + t4 y + t5) / k) with k = t6 x + t7 y + 1.
struct Transform {
  float t[8];
};

// First row, first column, rows and columns of a part of an image, in pixels.
struct Part {
  float top, left, height, width;
};

class Stage {
 public:
  virtual ~Stage() = default;

  // What `draw` writes, in its order; nothing for a stage that is not random.
  virtual std::vector<Parameter> parameters() const { return {}; }
  // Draws for one example. form: of its image before the stage.
  virtual void draw(Key, const Form&, Slot*) const {}
  // Returns the form of the result. Raises Failure for images that do not fit.
  virtual Form output(const Form& form) const { return form; }
  // The same for one image: of a file its header tells the size.
  virtual Form output_of(const Image& image) const { return output(image.form); }
  // Returns the changed image, in memory of the arena; or `image` itself if nothing changes.
  virtual Image apply(const Image& image, Arena& arena, const Slot* drawn) const = 0;

  // Of a stage that is a line: writes [4, channels] to `numbers`. `image`: the image before the stage.
  virtual void line(const Image&, const Slot*, float*) const { unsupported("a line"); }
  // Of a stage that only moves pixels.
  virtual Transform transform(const Form&, const Slot*) const { unsupported("a transform"); }
  // Of a stage that resizes a part of each image.
  virtual Part part(const Form&, const Slot*) const { unsupported("a window"); }

  // Stages that need a second image of the batch: the next one of those with the same path.
  virtual bool has_partner() const { return false; }
  virtual uint64_t path(const Slot*) const { return 0; }
  virtual Image paired(const Image& image, const Image&, Arena& arena, const Slot* drawn) const {
    return apply(image, arena, drawn);
  }

  int64_t slots() const {
    int64_t count = 0;
    for (const Parameter& parameter : parameters()) count += parameter.count;
    return count;
  }

 private:
  [[noreturn]] static void unsupported(const char* what) { throw Failure{Code::internal, std::string("a stage is not ") + what}; }
};

using Maker = std::function<std::unique_ptr<Stage>(const Config&)>;

inline std::map<std::string, Maker>& makers() {
  static std::map<std::string, Maker> all;
  return all;
}

template <class Kind>
struct Registered {
  explicit Registered(const char* name) {
    makers()[name] = [](const Config& config) { return std::make_unique<Kind>(config); };
  }
};

// Raises Failure for a stage that does not exist.
inline std::unique_ptr<Stage> make_stage(const Config& config) {
  const auto found = makers().find(config.name);
  if (found == makers().end()) throw Failure{Code::invalid_argument, "the compiled core has no stage " + config.name};
  return found->second(config);
}

}  // namespace tfhet
