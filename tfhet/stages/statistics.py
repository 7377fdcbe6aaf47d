"""Statistics of images per channel: the mean, and the smallest and the largest value."""

from __future__ import annotations

from dataclasses import dataclass

import tensorflow as tf

from tfhet import native
from tfhet.stages import levels


@dataclass(frozen=True)
class Statistics:
    """Statistics of a batch, each float32 [batch, channels] in the units of the images."""

    mean: tf.Tensor
    low: tf.Tensor
    high: tf.Tensor

    @classmethod
    def of(cls, images: tf.Tensor) -> Statistics:
        """Computes them for images, uint8 or float32 [batch, H, W, C], none of which is empty."""
        ops = native.ops("statistics")
        if ops is None:
            return cls.plain(images)
        parts = ops.tfhet_statistics(images)
        for part in parts:
            part.set_shape([images.shape[0], images.shape[3]])
        return cls(*parts)

    @classmethod
    def plain(cls, images: tf.Tensor) -> Statistics:
        """Does the same as `of` by TensorFlow's own operations."""
        values = tf.cast(images, tf.float32)
        reducers = (tf.reduce_mean, tf.reduce_min, tf.reduce_max)
        return cls(*(levels.over_pixels(reduce, values)[:, 0, 0] for reduce in reducers))
