"""Look-up: for an image of 256 levels, a table says what pointwise stages make of it."""

from __future__ import annotations

import tensorflow as tf

from tfhet import native
from tfhet.stages.line import Line, plain_line


def lookup(images: tf.Tensor, tables: tf.Tensor) -> tf.Tensor:
    """images: uint8, or float32 in 0..1, whose values count as the nearest of the 256 levels [batch, H, W, C]; tables:
    uint8 or float32 [1 or batch, 256, 1 or C] -> the images' shape, the tables' dtype."""
    ops = native.ops("tone")
    if ops is None:
        return plain_lookup(images, tables)
    result = ops.tfhet_lookup(images, tables)
    result.set_shape(images.shape)
    return result


def plain_lookup(images: tf.Tensor, tables: tf.Tensor) -> tf.Tensor:
    """`lookup` by TensorFlow's own operations."""
    shape, size = tf.shape(images), tf.shape(tables)
    # One table of all: that of image b and channel c begins at 256 (b C + c).
    bins = tf.cast(plain_line(images, Line.of(255.0), tf.uint8) if images.dtype.is_floating else images, tf.int32)
    if tables.shape[2] != 1:
        bins += 256 * tf.range(shape[3])
    if tables.shape[0] != 1:
        own = 256 * size[2] * tf.range(shape[0]) * tf.cast(size[0] > 1, tf.int32)
        bins += own[:, tf.newaxis, tf.newaxis, tf.newaxis]
    result = tf.gather(tf.reshape(tf.transpose(tables, [0, 2, 1]), [-1]), bins)
    result.set_shape(images.shape)
    return result
