"""The records of one TFRecord file as a data set: all, those from a place on, or one."""

from __future__ import annotations

import tensorflow as tf

_READ_BYTES = 64 << 10
"""Size of the read buffer for one record, in bytes."""
_BUFFER_BYTES = 256 << 10
"""Size of the read buffer of a file, in bytes, as in TFRecordDataset."""


def all_records(file: tf.Tensor, compression: str, skips: bool = False) -> tf.data.Dataset:
    """Returns the records, string [], of a file, string []. compression: as TensorFlow calls it; "" for none. skips:
    whether errors will be ignored."""
    if not skips:
        return tf.data.TFRecordDataset(file, compression)

    # TFRecordDataset reports a file that it cannot open again and again: ignored, that would have no end.
    def opening(name: tf.Tensor) -> tf.Tensor:
        first = tf.data.TFRecordDataset(name, compression).take(1)
        with tf.control_dependencies([first.reduce(tf.constant(0, tf.int64), lambda count, _: count + 1)]):
            return tf.identity(name)

    opened = tf.data.Dataset.from_tensors(file).map(tf.autograph.experimental.do_not_convert(opening))
    return opened.flat_map(lambda name: tf.data.TFRecordDataset(name, compression))


def records_from(
    file: tf.Tensor, compression: str, position: tf.Tensor, offset: tf.Tensor, buffer_bytes: int = _BUFFER_BYTES
) -> tf.data.Dataset:
    """Returns the records from the one at `position` on, which starts at byte `offset`, int64 []."""
    if compression:  # unpacked from its beginning, because no other byte of it can be found
        return tf.data.TFRecordDataset(file, compression).skip(position)
    variant = tf.raw_ops.TFRecordDatasetV2(  # the public TFRecordDataset begins at the first record
        filenames=file[tf.newaxis], compression_type="", buffer_size=buffer_bytes, byte_offsets=offset[tf.newaxis]
    )
    return tf.data.experimental.from_variant(variant, tf.TensorSpec([], tf.string))


def record_at(file: tf.Tensor, compression: str, position: tf.Tensor, offset: tf.Tensor) -> tf.Tensor:
    """Returns one record, string []; raises InvalidArgumentError at the end of the file."""
    return records_from(file, compression, position, offset, _READ_BYTES).take(1).get_single_element()
