/* The C interface of the compiled core. All functions may be called from any thread. None of them ends the process: a
 * function that fails returns a code other than 0, the one of TensorFlow and gRPC for the error, and fills in `status`, which
 * may be NULL. */

#ifndef TFHET_ABI_H
#define TFHET_ABI_H

#include <stdint.h>

#define TFHET_ABI_VERSION 2

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tfhet_chain tfhet_chain;

typedef struct {
  int32_t code; /* 0: no error; 3: invalid argument; 5: file not found; 7: file cannot be opened; 8: no memory;
                   13: a defect of the core or of its caller; 15: broken file */
  char text[1004];
  int64_t item;   /* number of the file or record that is wrong; -1 if it is none */
  int64_t offset; /* byte in the file at which it is broken, or -1 */
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

typedef struct tfhet_memory tfhet_memory;

typedef struct {
  int64_t size;
  const char* const* paths; /* [size] local files; neighbouring items of one file are read from one descriptor */
  const int64_t* offsets;   /* [size] first byte of each item; NULL: 0 */
  const int64_t* lengths;   /* [size] bytes of each item; NULL or -1: to the end of the file, or of the record */
  const void** addresses;   /* [size] receives where the content of each item is */
  int64_t* sizes;           /* [size] receives the bytes of each content */
  int32_t framed;           /* if not 0, each item is a record of a TFRecord file: `offsets` and `lengths` count its header
                               and checksums, which are verified, and its content is the data */
  int32_t threads;
} tfhet_items;

typedef struct {
  void* values;     /* [records, size of the feature]: uint8, int64 or float32; of byte strings: their addresses in the records */
  int64_t* lengths; /* [records, size of the feature] bytes of each byte string; of other features NULL */
  int64_t room;     /* bytes at `values`, and of a feature of byte strings also at `lengths` */
} tfhet_column;

int32_t tfhet_abi_version(void);
/* Makes a chain of a text: see config.h. */
int32_t tfhet_chain_new(const char* text, tfhet_chain** chain, tfhet_status* status);
void tfhet_chain_free(tfhet_chain* chain);
/* Number of values that are drawn for an example. */
int64_t tfhet_chain_slots(const tfhet_chain* chain);
/* Number of steps, each of one stage or of stages that run as one operation. */
int64_t tfhet_chain_steps(const tfhet_chain* chain);
/* Returns the number of images that were timed, some of each batch; `step_ns`, [steps], receives the nanoseconds of CPU time
 * of each step in all of them. */
int64_t tfhet_chain_times(const tfhet_chain* chain, int64_t* step_ns);
/* A line for each drawn parameter: STAGE SALT NAME KIND COUNT IS_VECTOR. It lives as long as the chain. */
const char* tfhet_chain_parameters(const tfhet_chain* chain);
/* The form of the results for images of a form. */
int32_t tfhet_chain_output(const tfhet_chain* chain, const tfhet_form* form, tfhet_form* result, tfhet_status* status);
int32_t tfhet_chain_run(const tfhet_chain* chain, const tfhet_batch* batch, tfhet_status* status);

/* Reads files, parts of files, or records into memory that tfhet_memory_free frees. Of several broken items the first is
 * reported. */
int32_t tfhet_files_read(const tfhet_items* items, tfhet_memory** memory, tfhet_status* status);
/* Returns the number of items in the calls that were timed, one of eight; `nanoseconds` receives the time in which these calls
 * waited, neither running nor ready to run. */
int64_t tfhet_files_waited(int64_t* nanoseconds);
void tfhet_memory_free(tfhet_memory* memory);
/* Parses serialised tf.train.Examples into one column for each feature of a layout, "KIND SIZE LENGTH:NAME" one after
 * another. KIND is 0 (one byte string of SIZE bytes), 1 (SIZE int64), 2 (SIZE float32) or 3 (SIZE byte strings); LENGTH
 * counts the bytes of NAME. A record that does not have the features is an invalid argument. */
int32_t tfhet_examples_parse(int64_t size, const void* const* records, const int64_t* lengths, const char* layout,
                             int64_t layout_bytes, const tfhet_column* columns, int64_t columns_count, tfhet_status* status);
/* Finds the records of a TFRecord file by their lengths. `offsets` receives the byte at which each begins, and last the byte
 * after them; `reason` why the file breaks off there, or "". Both live as long as `memory`. */
int32_t tfhet_records_offsets(const char* path, int64_t* records, const int64_t** offsets, const char** reason,
                              tfhet_memory** memory, tfhet_status* status);
/* Makes a TFI file (stored.h) of an image file: upright, and reduced (antialiased) so that no side is longer than max_side, if
 * that is not 0. kind: 1: YUV 4:2:0; 2: RGB. accurate: whether JPEG is decoded by the accurate transform. `address` and
 * `size` receive the content, which lives as long as `memory`. */
int32_t tfhet_image_store(const char* file, int64_t bytes, int32_t kind, int64_t max_side, int32_t accurate,
                          const void** address, int64_t* size, tfhet_memory** memory, tfhet_status* status);

#ifdef __cplusplus
}
#endif

#endif
