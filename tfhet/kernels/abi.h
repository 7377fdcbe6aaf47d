/* The C interface of the compiled core. All functions may be called from any thread. None of them ends the process: a
 * function that fails returns a code other than 0, the one of TensorFlow and gRPC for the error, and fills in `status`. */

#ifndef TFHET_ABI_H
#define TFHET_ABI_H

#include <stdint.h>

#define TFHET_ABI_VERSION 1

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tfhet_chain tfhet_chain;

typedef struct {
  int32_t code; /* 0: no error; 3: invalid argument; 8: no memory; 13: a defect of the core or of its caller */
  char text[1020];
} tfhet_status;

typedef struct {
  int32_t type; /* 0: uint8, 1: float32, 2: image files */
  int32_t reserved;
  int64_t height, width, channels; /* of image files 0 */
} tfhet_form;

typedef struct {
  tfhet_form form;
  int64_t size;
  const void* images;       /* [size, height, width, channels], or NULL */
  const char* const* files; /* [size] image files, if images is NULL */
  const int64_t* lengths;   /* [size] bytes of each file */
  const int64_t* ids;       /* [size] example ids; NULL if no stage draws */
  const int64_t* epochs;    /* [size], or [1] if one_epoch is not 0 */
  const uint64_t* salts;    /* one for each stage that draws */
  const uint64_t* keys;     /* [size] in place of ids, epochs and salts; or NULL */
  const void* given;        /* [size, slots] of 8 bytes: values that replace drawn ones; or NULL */
  void* drawn;              /* [size, slots] of 8 bytes for drawn values, or NULL */
  void* result;             /* [size] images of the form that tfhet_chain_output returns; NULL: values are only drawn,
                               for which `images` may be NULL */
  int64_t result_bytes;     /* size of `result` */
  int64_t salts_count;
  int32_t one_epoch;
  int32_t threads;
} tfhet_batch;

int32_t tfhet_abi_version(void);
/* Makes a chain of a text: see config.h. */
int32_t tfhet_chain_new(const char* text, tfhet_chain** chain, tfhet_status* status);
void tfhet_chain_free(tfhet_chain* chain);
/* Number of values that are drawn for an example. */
int64_t tfhet_chain_slots(const tfhet_chain* chain);
/* A line for each drawn parameter: STAGE SALT NAME KIND COUNT IS_VECTOR. It lives as long as the chain. */
const char* tfhet_chain_parameters(const tfhet_chain* chain);
/* The form of the results for images of a form. */
int32_t tfhet_chain_output(const tfhet_chain* chain, const tfhet_form* form, tfhet_form* result, tfhet_status* status);
int32_t tfhet_chain_run(const tfhet_chain* chain, const tfhet_batch* batch, tfhet_status* status);

#ifdef __cplusplus
}
#endif

#endif
