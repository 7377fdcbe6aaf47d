#include "chain.h"
#include "guard.h"

struct tfhet_chain {
  tfhet::Chain chain;
};

using tfhet::guarded;

namespace {

tfhet::Form form_of(const tfhet_form& form) {
  if (form.type < 0 || form.type > 2) tfhet::invalid("images are uint8, float32 or files");
  if (form.type == 2) return {tfhet::Type::file, 0, 0, 0};
  int64_t values = 1;
  for (const int64_t length : {form.height, form.width, form.channels})
    if (length < 0 || __builtin_mul_overflow(values, length, &values) || values > INT32_MAX)
      tfhet::invalid("an image has from 0 to 2**31 - 1 values");
  return {static_cast<tfhet::Type>(form.type), form.height, form.width, form.channels};
}

}  // namespace

TFHET_EXPORT int32_t tfhet_abi_version(void) { return TFHET_ABI_VERSION; }

TFHET_EXPORT int32_t tfhet_chain_new(const char* text, tfhet_chain** chain, tfhet_status* status) {
  return guarded(status, [&] {
    if (!text || !chain) throw tfhet::Failure{tfhet::Code::internal, "no text or no place for the chain"};
    *chain = new tfhet_chain{tfhet::Chain(text)};
  });
}

TFHET_EXPORT void tfhet_chain_free(tfhet_chain* chain) { delete chain; }

TFHET_EXPORT int64_t tfhet_chain_slots(const tfhet_chain* chain) { return chain->chain.slots(); }

TFHET_EXPORT int64_t tfhet_chain_steps(const tfhet_chain* chain) { return chain->chain.steps(); }

TFHET_EXPORT int64_t tfhet_chain_times(const tfhet_chain* chain, int64_t* step_ns) { return chain->chain.times(step_ns); }

TFHET_EXPORT const char* tfhet_chain_parameters(const tfhet_chain* chain) { return chain->chain.parameters().c_str(); }

TFHET_EXPORT int32_t tfhet_chain_output(const tfhet_chain* chain, const tfhet_form* form, tfhet_form* result,
                                        tfhet_status* status) {
  return guarded(status, [&] {
    const tfhet::Form made = chain->chain.output(form_of(*form));
    *result = {static_cast<int32_t>(made.type), 0, made.height, made.width, made.channels};
  });
}

TFHET_EXPORT int32_t tfhet_chain_run(const tfhet_chain* chain, const tfhet_batch* batch, tfhet_status* status) {
  return guarded(status, [&] {
    const tfhet::Form form = form_of(batch->form);
    if (batch->size < 0) tfhet::invalid("a batch has no negative size");
    const bool is_files = form.type == tfhet::Type::file;
    if (batch->size == 0) return;
    if (is_files ? !batch->files || !batch->lengths : !batch->images && batch->result) tfhet::invalid("images are missing");
    for (int64_t i = 0; is_files && i < batch->size; ++i)
      if (!batch->files[i] || batch->lengths[i] < 0) tfhet::invalid("contents[" + std::to_string(i) + "] is missing");
    tfhet::Batch given;
    given.form = form;
    given.size = batch->size;
    given.images = batch->images;
    given.files = batch->files;
    given.lengths = batch->lengths;
    given.ids = batch->ids;
    given.epochs = batch->epochs;
    given.one_epoch = batch->one_epoch != 0;
    given.salts = batch->salts;
    given.salts_count = batch->salts_count;
    given.keys = batch->keys;
    given.given = static_cast<const tfhet::Slot*>(batch->given);
    auto* const drawn = static_cast<tfhet::Slot*>(batch->drawn);
    if (!batch->result) {
      if (!drawn) tfhet::invalid("neither images nor drawn values are asked for");
      return chain->chain.draw(given, drawn);
    }
    const tfhet::Form made = chain->chain.output(form);
    if (made.type == tfhet::Type::file || made.values() <= 0) tfhet::invalid("the images of the result have no pixels");
    if (batch->result_bytes != static_cast<int64_t>(made.bytes()) * batch->size)
      tfhet::invalid("the result has " + std::to_string(batch->result_bytes) + " bytes, not " +
                     std::to_string(static_cast<int64_t>(made.bytes()) * batch->size));
    chain->chain.run(given, batch->threads, batch->result, drawn);
  });
}
