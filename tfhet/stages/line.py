"""Straight lines with ends: many stages of grey levels are one, and so are several of them in a row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import tensorflow as tf

from tfhet import native

Number: TypeAlias = float | Sequence[float] | tf.Tensor


@dataclass(frozen=True)
class Line:
    """The function min(max(scale * x + offset, low), high) with low <= high, which may be infinite. Each number is
    float32 [1 or batch, 1 or channels]."""

    scale: tf.Tensor
    offset: tf.Tensor
    low: tf.Tensor
    high: tf.Tensor

    @classmethod
    def of(
        cls,
        scale: Number = 1.0,
        offset: Number = 0.0,
        low: Number = -math.inf,
        high: Number = math.inf,
        per_image: bool = False,
    ) -> Line:
        """Makes a line of numbers, of [1 or batch, 1 or channels], of [channels], or, if `per_image`, of [batch]."""
        return cls(*(_matrix(part, int(per_image)) for part in (scale, offset, low, high)))

    def then(self, other: Line) -> Line:
        """Returns the line that applies this one and then `other`; only its four numbers are rounded."""
        # Never 0 times an infinite end: a scale of 0 makes every value the offset.
        ends = [tf.math.multiply_no_nan(end, other.scale) + other.offset for end in (self.low, self.high)]
        low, high = tf.minimum(*ends), tf.maximum(*ends)  # a negative scale exchanges them
        return Line(
            scale=self.scale * other.scale,
            offset=self.offset * other.scale + other.offset,
            low=tf.minimum(tf.maximum(low, other.low), other.high),
            high=tf.minimum(tf.maximum(high, other.low), other.high),
        )


def _matrix(part: Number, axis: int) -> tf.Tensor:
    """Makes a vector one row (axis 0) or one column (axis 1)."""
    part = tf.convert_to_tensor(part, tf.float32)
    if part.shape.rank == 0:
        return tf.reshape(part, [1, 1])
    return tf.expand_dims(part, axis) if part.shape.rank == 1 else part


def apply_line(images: tf.Tensor, line: Line, dtype: tf.DType) -> tf.Tensor:
    """Applies the line to images, uint8 or float32 [batch, H, W, C]; uint8 results are rounded and clipped."""
    if (ops := native.ops("tone")) is not None:
        result = ops.tfhet_line(images, line.scale, line.offset, line.low, line.high, result_type=dtype)
        return native.shaped(result, images.shape)
    values = tf.cast(images, tf.float32)
    parts = (line.scale, tf.multiply), (line.offset, tf.add), (line.low, tf.maximum), (line.high, tf.minimum)
    for part, combine in parts:
        values = combine(values, part[:, tf.newaxis, tf.newaxis])
    if not dtype.is_floating:
        values = tf.raw_ops.ClipByValue(t=values + 0.5, clip_value_min=0.0, clip_value_max=255.0)
    return native.shaped(tf.cast(values, dtype), images.shape)
