"""Spreads the levels of each image so that all are used about equally often."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import tensorflow as tf

from tfhet import native
from tfhet.stages import levels
from tfhet.stages.registry import register
from tfhet.stages.spec import ImageSpec
from tfhet.stages.stage import Stage
from tfhet.stages.table import lookup


@register("equalize")
@dataclass(frozen=True)
class Equalize(Stage):
    """Equalises the histogram of each channel of each image, bit for bit as Pillow's `ImageOps.equalize`.

    Images are uint8 in 0..255, or float32 in 0..1, which is rounded to 256 levels first. The dtype stays.
    """

    def spec(self, spec: ImageSpec) -> ImageSpec:
        return levels.full_range(self, spec)

    def apply(self, images: tf.Tensor, parameters: Mapping[str, tf.Tensor]) -> tf.Tensor:
        given = levels.in_levels(images)
        return lookup(given, levels.as_given(tables(given), images.dtype))


def tables(images: tf.Tensor) -> tf.Tensor:
    """Returns uint8 [batch, 256, C], the new value of each level, for images uint8 [batch, H, W, C]."""
    ops = native.ops("statistics")
    if ops is None:
        return plain_tables(images)
    result = ops.tfhet_equalizer(images)
    result.set_shape([images.shape[0], 256, images.shape[3]])
    return result


def plain_tables(images: tf.Tensor) -> tf.Tensor:
    """Does the same as `tables` by TensorFlow's own operations."""
    batch, height, width, channels = tf.unstack(tf.shape(images))
    planes = batch * channels
    # One histogram for all planes: plane p counts in the bins 256 p to 256 p + 255.
    first = tf.reshape(tf.range(planes) * 256, [batch, 1, 1, channels])
    bins = tf.cast(images, tf.int32) + first
    counts = tf.raw_ops.DenseBincount(
        input=tf.reshape(bins, [-1]), size=planes * 256, weights=tf.constant([], tf.int32), binary_output=False
    )
    below = tf.cumsum(tf.reshape(counts, [planes, 256]), axis=1, exclusive=True)
    # A step is a 255th of the pixels below the brightest level; without such pixels levels stay unchanged.
    but_brightest = tf.reduce_max(below * tf.cast(below < height * width, tf.int32), axis=1, keepdims=True)
    step = but_brightest // 255
    spread = tf.minimum((below + step // 2) // tf.maximum(step, 1), 255)
    table = tf.where(step > 0, spread, tf.range(256))
    return tf.transpose(tf.cast(tf.reshape(table, [batch, channels, 256]), tf.uint8), [0, 2, 1])
