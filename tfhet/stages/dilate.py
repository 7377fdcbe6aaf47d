"""Grey-scale dilation with a flat square: each pixel becomes the maximum of its neighbourhood."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import tensorflow as tf

from tfhet.stages.registry import register
from tfhet.stages.stage import Stage


@register("dilate")
@dataclass(frozen=True)
class Dilate(Stage):
    """The same as `tf.nn.dilation2d` with a filter of zeros, stride 1 and SAME padding; dtype stays."""

    size: int = 3
    """Edge of the square in pixels, from 1."""

    commutes_with_rescale: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.size < 1:
            self.refuse(f"size is at least 1, not {self.size}")

    def apply(self, images: tf.Tensor, parameters: Mapping[str, tf.Tensor]) -> tf.Tensor:
        if self.size == 1:
            return images
        # A square's maximum is the maximum over rows of the maximum over columns: 2 passes instead of size**2.
        before = (self.size - 1) // 2
        around = [before, self.size - 1 - before]
        padded = tf.pad(images, [[0, 0], around, around, [0, 0]], constant_values=images.dtype.min)
        return self._along(self._along(padded, 1), 2)

    def _along(self, images: tf.Tensor, axis: int) -> tf.Tensor:
        # The maximum over 2w neighbours is that of two maxima over w: log2(size) steps.
        window = 1
        while window < self.size:
            step = min(window, self.size - window)
            head = (slice(None),) * axis
            images = tf.maximum(images[(*head, slice(None, -step))], images[(*head, slice(step, None))])
            window += step
        return images
