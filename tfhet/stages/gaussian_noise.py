"""Adds noise to each value."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import tensorflow as tf

from tfhet import native
from tfhet.stages import levels, randomness
from tfhet.stages.levels import FullRange
from tfhet.stages.registry import register
from tfhet.stages.spec import ImageSpec
from tfhet.stages.stage import PositiveOrZero


@register("gaussian_noise")
@dataclass(frozen=True)
class GaussianNoise(FullRange):
    """Adds normal noise of mean 0 to each value of each image, and clips it.

    Images are uint8 in 0..255 or float32 in 0..1; the dtype stays.
    """

    stddev: PositiveOrZero = 0.05
    """Standard deviation, as a fraction of the full range: 0.05 is 12.75 levels of uint8. From 0."""

    random: ClassVar[bool] = True

    def parameters(self, keys: tf.Tensor, spec: ImageSpec) -> dict[str, tf.Tensor]:
        """Returns `noise`, uint64 [batch], from which all noise of an image derives (see `normals`)."""
        return {"noise": randomness.bits(keys, 0)}

    def apply(self, images: tf.Tensor, parameters: Mapping[str, tf.Tensor]) -> tf.Tensor:
        ops, deviation = native.ops("noise"), self.stddev * levels.FULL[images.dtype.name]
        if ops is not None:
            return native.shaped(ops.tfhet_noise(images, parameters["noise"], deviation=deviation), images.shape)
        shape = tf.shape(images)
        noise = tf.reshape(normals(parameters["noise"], tf.reduce_prod(shape[1:])), shape)
        noisy = levels.restored(tf.cast(images, tf.float32) + noise * deviation, images.dtype)
        return native.shaped(noisy, images.shape)


def normals(seeds: tf.Tensor, count: tf.Tensor) -> tf.Tensor:
    """Returns normal numbers, float32 [batch, count], for seeds, uint64 [batch].

    A row depends on its seed only, except for the last bit, which logarithm and cosine may round differently in another
    batch. Box-Muller takes 16 bits each for radius and angle, so one 64-bit word gives four numbers, none beyond 4.9.
    """
    words = tf.bitcast(tf.range(tf.cast((count + 3) // 4, tf.int64)), tf.uint64)
    halves = tf.bitcast(randomness.absorb(seeds[:, tf.newaxis], words), tf.int32)
    lower = tf.cast(tf.bitwise.bitwise_and(halves, 0xFFFF), tf.float32)
    upper = tf.cast(tf.bitwise.right_shift(halves, 16), tf.float32)
    radius = tf.sqrt(-2.0 * tf.math.log((lower + 0.5) * 2.0**-16))
    angle = upper * (2.0 * math.pi * 2.0**-16)
    pair = [tf.reshape(radius * wave(angle), [-1, 2 * tf.size(words)]) for wave in (tf.cos, tf.sin)]
    return tf.concat(pair, axis=1)[:, :count]
