"""Mean, lowest and highest level of images."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import tensorflow as tf

from tfhet import native


def over_pixels(reduce: Callable[..., tf.Tensor], images: tf.Tensor) -> tf.Tensor:
    """Reduces [batch, H, W, C] to [batch, 1, 1, C] by tf.reduce_mean, tf.reduce_min or tf.reduce_max."""
    shape, channels = tf.shape(images), images.shape[3]
    # First over whole lines, each column by itself: both axes at once take three times as long.
    columns = reduce(tf.reshape(images, [shape[0], shape[1], shape[2] * channels]), axis=1)
    reduced = reduce(tf.reshape(columns, [shape[0], shape[2], channels]), axis=1)
    return reduced[:, tf.newaxis, tf.newaxis, :]


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
        if ops is not None:
            shape = [images.shape[0], images.shape[3]]
            return cls(*(native.shaped(part, shape) for part in ops.tfhet_statistics(images)))
        values = tf.cast(images, tf.float32)
        reducers = (tf.reduce_mean, tf.reduce_min, tf.reduce_max)
        return cls(*(over_pixels(reduce, values)[:, 0, 0] for reduce in reducers))
