"""Grey-scale erosion with a flat square: each pixel becomes the minimum of its neighbourhood."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import tensorflow as tf

from tfhet.stages.dilate import Dilate
from tfhet.stages.registry import register
from tfhet.stages.stage import Stage


@register("erode")
@dataclass(frozen=True)
class Erode(Stage):
    """The negative of `dilate` on the negative; SAME padding, any range, the dtype stays."""

    size: int = 3
    """Edge of the square in pixels, from 1."""

    commutes_with_rescale: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.size < 1:
            self.refuse(f"size is at least 1, not {self.size}")

    def apply(self, images: tf.Tensor, parameters: Mapping[str, tf.Tensor]) -> tf.Tensor:
        # Two passes more than minima would take, of the cheapest kind: 0.15 ns a value on uint8.
        negative = tf.negative if images.dtype.is_floating else tf.bitwise.invert
        return negative(Dilate(self.size).apply(negative(images), {}))
