"""Keeps fewer levels of each value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import tensorflow as tf

from tfhet import native
from tfhet.stages import levels
from tfhet.stages.registry import register
from tfhet.stages.spec import ImageSpec
from tfhet.stages.stage import Stage
from tfhet.stages.table import lookup


@register("posterize")
@dataclass(frozen=True)
class Posterize(Stage):
    """Clears the lowest bits of each value, as Pillow's `ImageOps.posterize` does.

    Images are uint8 in 0..255, or float32 in 0..1, which is rounded to 256 levels first. The dtype stays.
    """

    bits: int = 4
    """Number of bits that stay, from 1 to 8."""

    pointwise: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.bits <= 8:
            self.refuse(f"bits is from 1 to 8, not {self.bits}")

    def spec(self, spec: ImageSpec) -> ImageSpec:
        return levels.full_range(self, spec)

    def apply(self, images: tf.Tensor, parameters: Mapping[str, tf.Tensor]) -> tf.Tensor:
        kept = 256 - 2 ** (8 - self.bits)
        if images.dtype.is_floating and native.available("tone"):
            table = tf.constant((np.arange(256) & kept)[np.newaxis, :, np.newaxis], tf.uint8)
            return lookup(images, levels.as_given(table, images.dtype))
        return levels.as_given(
            tf.bitwise.bitwise_and(levels.in_levels(images), tf.constant(kept, tf.uint8)), images.dtype
        )
