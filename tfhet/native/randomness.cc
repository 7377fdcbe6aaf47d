// The hash that all randomness of an example comes from, in one operation for each draw instead of fifteen: the numbers
// that tfhet/stages/randomness.py makes with plain operations, bit for bit.

#include "op.h"
#include "splitmix.h"

namespace tfhet {

template <>
struct DataType<uint64_t> {
  static constexpr TF_DataType value = TF_UINT64;
};

}  // namespace tfhet

namespace {

using tfhet::absorb;
using tfhet::Attributes;
using tfhet::Context;
using tfhet::Input;

class Absorb {
 public:
  explicit Absorb(const Attributes&) {}

  // Scalars and vectors of one length.
  void compute(Context& context) const {
    const auto states = context.input(0), words = context.input(1);
    if (states.shape.size() > 1 || words.shape.size() > 1) tfhet::invalid("states and words are scalars or vectors");
    if (!states.shape.empty() && !words.shape.empty() && states.shape != words.shape)
      tfhet::invalid("states and words differ in length");
    const tfhet::Shape& shape = states.shape.empty() ? words.shape : states.shape;
    const int64_t by_state = states.shape.empty() ? 0 : 1, by_word = words.shape.empty() ? 0 : 1;
    const uint64_t *state = states.data<uint64_t>(), *word = words.data<uint64_t>();
    uint64_t* to = context.output<uint64_t>(0, shape);
    for (int64_t i = 0; i < tfhet::elements(shape); ++i) to[i] = absorb(state[i * by_state], word[i * by_word]);
  }
};

class Uniform {
 public:
  explicit Uniform(const Attributes& attributes)
      : draw_(static_cast<uint64_t>(attributes.integer("draw"))),
        low_(attributes.number("low")),
        span_(attributes.number("span")) {}

  void compute(Context& context) const {
    const auto keys = context.input(0);
    const uint64_t* key = keys.data<uint64_t>();
    float* to = context.output<float>(0, keys.shape);
    for (int64_t i = 0; i < tfhet::elements(keys.shape); ++i)
      to[i] = low_ + static_cast<float>(absorb(key[i], draw_) >> 40) * 0x1p-24f * span_;
  }

 private:
  uint64_t draw_;
  float low_, span_;
};

const tfhet::Op<Absorb> absorbed{"TfhetAbsorb", {"states: uint64", "words: uint64"}, {"result: uint64"}};
const tfhet::Op<Uniform> uniform{
    "TfhetUniform", {"keys: uint64"}, {"result: float"}, {"draw: int", "low: float", "span: float"}};

}  // namespace
