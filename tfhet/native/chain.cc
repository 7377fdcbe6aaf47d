// The compiled core as an op: a chain of stages on a batch of images or image files.
//
// The library of the core is loaded before this one, and its functions are found by name: see kernels/abi.h.

#include <dlfcn.h>

#include <algorithm>
#include <sstream>

#include "abi.h"
#include "op.h"

namespace tfhet {

template <>
struct DataType<double> {
  static constexpr TF_DataType value = TF_DOUBLE;
};

}  // namespace tfhet

namespace {

using tfhet::Attributes;
using tfhet::Context;
using tfhet::Input;

// The functions of the core.
struct Core {
  decltype(&tfhet_chain_new) make = found<decltype(&tfhet_chain_new)>("tfhet_chain_new");
  decltype(&tfhet_chain_free) free = found<decltype(&tfhet_chain_free)>("tfhet_chain_free");
  decltype(&tfhet_chain_slots) slots = found<decltype(&tfhet_chain_slots)>("tfhet_chain_slots");
  decltype(&tfhet_chain_output) output = found<decltype(&tfhet_chain_output)>("tfhet_chain_output");
  decltype(&tfhet_chain_run) run = found<decltype(&tfhet_chain_run)>("tfhet_chain_run");

  template <class Function>
  static Function found(const char* name) {
    void* const function = dlsym(RTLD_DEFAULT, name);
    if (!function) throw tfhet::Failure{tfhet::Code::internal, "the library of the compiled core is not loaded"};
    return reinterpret_cast<Function>(function);
  }
  static const Core& get() {
    static const Core core;
    return core;
  }
  static void check(int32_t code, const tfhet_status& status) {
    if (code) throw tfhet::Failure{static_cast<tfhet::Code>(code), status.text};
  }
};

// A chain of the core.
class Compiled {
 public:
  explicit Compiled(const std::string& text) {
    tfhet_status status;
    Core::check(Core::get().make(text.c_str(), &chain_, &status), status);
  }
  ~Compiled() {
    if (chain_) Core::get().free(chain_);
  }
  Compiled(const Compiled&) = delete;
  Compiled& operator=(const Compiled&) = delete;

  int64_t slots() const { return Core::get().slots(chain_); }
  tfhet_form output(const tfhet_form& form) const {
    tfhet_status status;
    tfhet_form made;
    Core::check(Core::get().output(chain_, &form, &made, &status), status);
    return made;
  }
  void run(const tfhet_batch& batch) const {
    tfhet_status status;
    Core::check(Core::get().run(chain_, &batch, &status), status);
  }

 private:
  tfhet_chain* chain_ = nullptr;
};

class Chain {
 public:
  explicit Chain(const Attributes& attributes) : chain_(attributes.text("chain")), type_(attributes.type("result_type")) {
    std::istringstream salts(attributes.text("salts"));
    for (uint64_t salt; salts >> salt;) salts_.push_back(salt);
  }

  void compute(Context& context) const {
    const Input images = context.input(0), ids = context.input(1), epochs = context.input(2), given = context.input(3);
    const bool is_files = images.type() == TF_STRING;
    images.with_rank(is_files ? 1 : 4, "images");
    const int64_t size = images.shape[0], slots = chain_.slots();
    const bool is_given = given.with_rank(2, "given").shape[1] > 0;
    if (is_given && given.shape != tfhet::Shape{size, slots}) tfhet::invalid("given values are [batch, slots]");
    if (!is_given && slots > 0) {
      if (ids.with_rank(1, "ids").shape[0] != size || epochs.with_rank(1, "epochs").shape[0] != size)
        tfhet::invalid("there is one id and one epoch for each image");
    }
    tfhet_batch batch{};
    batch.form.type = is_files ? 2 : images.type() == TF_FLOAT ? 1 : 0;
    std::vector<const char*> files;
    std::vector<int64_t> lengths;
    if (is_files) {
      for (int64_t i = 0; i < size; ++i) {
        const std::string_view content = images.bytes(i);
        files.push_back(content.data() ? content.data() : "");
        lengths.push_back(static_cast<int64_t>(content.size()));
      }
      batch.files = files.data();
      batch.lengths = lengths.data();
    } else {
      batch.form.height = images.shape[1], batch.form.width = images.shape[2], batch.form.channels = images.shape[3];
      batch.images = images.data<uint8_t>();
    }
    batch.size = size;
    batch.ids = ids.data<int64_t>();
    batch.epochs = epochs.data<int64_t>();
    batch.salts = salts_.data();
    batch.salts_count = static_cast<int64_t>(salts_.size());
    batch.given = is_given ? given.data<double>() : nullptr;
    batch.threads = 1;  // tf.data prepares several batches at the same time
    const tfhet_form made = chain_.output(batch.form);
    const tfhet::Shape shape{size, made.height, made.width, made.channels};
    if ((made.type == 1) != (type_ == TF_FLOAT)) tfhet::invalid("the chain makes images of another type");
    batch.result = type_ == TF_FLOAT ? static_cast<void*>(context.output<float>(0, shape)) : context.output<uint8_t>(0, shape);
    batch.result_bytes = tfhet::elements(shape) * (type_ == TF_FLOAT ? 4 : 1);
    batch.drawn = context.output<double>(1, {size, slots});
    if (tfhet::elements(shape) > 0) chain_.run(batch);
  }

 private:
  Compiled chain_;
  TF_DataType type_;
  std::vector<uint64_t> salts_;
};

// The parameters of one stage, from the keys of examples.
class Draw {
 public:
  explicit Draw(const Attributes& attributes)
      : chain_(attributes.text("chain")),
        form_{attributes.type("T") == TF_FLOAT ? 1 : 0, 0, attributes.integer("height"), attributes.integer("width"),
              attributes.integer("channels")} {}

  void compute(Context& context) const {
    const Input keys = context.input(0);
    tfhet_batch batch{};
    batch.form = form_;
    batch.size = keys.with_rank(1, "keys").shape[0];
    batch.keys = keys.data<uint64_t>();
    batch.drawn = context.output<double>(0, {batch.size, chain_.slots()});
    if (batch.size > 0) chain_.run(batch);
  }

 private:
  Compiled chain_;
  tfhet_form form_;
};

const tfhet::Op<Chain> chain{
    "TfhetChain",
    {"images: T", "ids: int64", "epochs: int64", "given: double"},
    {"result: result_type", "drawn: double"},
    {"T: {uint8, float, string}", "result_type: {uint8, float}", "chain: string", "salts: string"}};
const tfhet::Op<Draw> draw{"TfhetDraw",
                           {"keys: uint64"},
                           {"drawn: double"},
                           {"T: {uint8, float}", "chain: string", "height: int", "width: int", "channels: int"}};

}  // namespace
