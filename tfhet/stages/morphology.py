"""Stages that take the largest or the smallest value around each pixel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import tensorflow as tf

from tfhet import native
from tfhet.stages.stage import Stage


class Morphology(Stage):
    """A stage over a square with the field `size`; pixels beyond the edge do not count."""

    largest: ClassVar[bool]
    """Whether it takes the largest value or the smallest."""
    commutes_with_rescale: ClassVar[bool] = True

    size: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.size < 1:
            self.refuse(f"size is at least 1, not {self.size}")

    def apply(self, images: tf.Tensor, parameters: Mapping[str, tf.Tensor]) -> tf.Tensor:
        return extremes(images, self.size, self.largest)


def extremes(images: tf.Tensor, size: int, largest: bool) -> tf.Tensor:
    """Returns the largest or smallest value of `size` x `size` pixels around each pixel.

    images: uint8 or float32 [batch, H, W, C]. An even square has one more pixel below and to the right.
    """
    if size == 1:
        return images
    compiled = native.ops("morphology")
    if compiled is None:
        return _plain(images, size, largest)
    result = compiled.tfhet_morphology(images, size=size, largest=largest)
    result.set_shape(images.shape)
    return result


def _plain(images: tf.Tensor, size: int, largest: bool) -> tf.Tensor:
    # A square's maximum is the maximum over rows of the maximum over columns: 2 passes instead of size**2.
    pick = tf.maximum if largest else tf.minimum
    before = (size - 1) // 2
    around = [before, size - 1 - before]
    neutral = images.dtype.min if largest else images.dtype.max
    result = tf.pad(images, [[0, 0], around, around, [0, 0]], constant_values=neutral)
    for axis in (1, 2):
        # The maximum over 2w neighbours is that of two maxima over w: log2(size) steps.
        head, window = (slice(None),) * axis, 1
        while window < size:
            step = min(window, size - window)
            result = pick(result[(*head, slice(None, -step))], result[(*head, slice(step, None))])
            window += step
    return result
