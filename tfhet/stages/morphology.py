"""Grey-scale dilation and erosion with a flat square."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import tensorflow as tf

from tfhet import native
from tfhet.stages.registry import register
from tfhet.stages.stage import Count, Stage


class Morphology(Stage):
    """Replaces each pixel by an extreme value of a square around it; pixels beyond the edge do not count."""

    largest: ClassVar[bool]
    """Whether it takes the largest value or the smallest."""
    commutes_with_rescale: ClassVar[bool] = True

    size: int
    """Side of the square in pixels, from 1."""

    def apply(self, images: tf.Tensor, parameters: Mapping[str, tf.Tensor]) -> tf.Tensor:
        return extremes(images, self.size, self.largest)


@register("dilate")
@dataclass(frozen=True)
class Dilate(Morphology):
    """Replaces each pixel by the maximum of a square around it; the dtype stays.

    It equals `tf.nn.dilation2d` with a filter of zeros, stride 1 and SAME padding.
    """

    size: Count = 3

    largest: ClassVar[bool] = True


@register("erode")
@dataclass(frozen=True)
class Erode(Morphology):
    """Replaces each pixel by the minimum of a square around it; any range, and the dtype stays.

    Pixels beyond the edge do not count. It is the negative of `dilate` on the negative image.
    """

    size: Count = 3

    largest: ClassVar[bool] = False


def extremes(images: tf.Tensor, size: int, largest: bool) -> tf.Tensor:
    """Returns the largest or smallest value of `size` x `size` pixels around each pixel.

    images: uint8 or float32 [batch, H, W, C]. An even square has one more pixel below and to the right.
    """
    if size == 1:
        return images
    ops = native.ops("morphology")
    if ops is not None:
        return native.shaped(ops.tfhet_morphology(images, size=size, largest=largest), images.shape)
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
