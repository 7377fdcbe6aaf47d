"""Look-up tables: the results of pointwise stages for each of 256 levels."""

from __future__ import annotations

import tensorflow as tf

from tfhet import native
from tfhet.stages.line import Line, plain_line


def lookup(images: tf.Tensor, tables: tf.Tensor) -> tf.Tensor:
    """Replaces each value by the table's entry, in the tables' dtype.

    images: uint8 [batch, H, W, C], or float32 in 0..1, which is rounded to 256 levels. tables: uint8 or float32
    [1 or batch, 256, 1 or C].
    """
    ops = native.ops("tone")
    if ops is None:
        return plain_lookup(images, tables)
    result = ops.tfhet_lookup(images, tables)
    result.set_shape(images.shape)
    return result


def plain_lookup(images: tf.Tensor, tables: tf.Tensor) -> tf.Tensor:
    """Does the same as `lookup` by TensorFlow's own operations."""
    shape, size = tf.shape(images), tf.shape(tables)
    # All tables in one: that of image b and channel c begins at 256 (b C + c).
    bins = tf.cast(plain_line(images, Line.of(255.0), tf.uint8) if images.dtype.is_floating else images, tf.int32)
    if tables.shape[2] != 1:
        bins += 256 * tf.range(shape[3])
    if tables.shape[0] != 1:
        own = 256 * size[2] * tf.range(shape[0]) * tf.cast(size[0] > 1, tf.int32)
        bins += own[:, tf.newaxis, tf.newaxis, tf.newaxis]
    result = tf.gather(tf.reshape(tf.transpose(tables, [0, 2, 1]), [-1]), bins)
    result.set_shape(images.shape)
    return result
