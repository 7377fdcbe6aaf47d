"""Turns each image into its negative."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import tensorflow as tf

from tfhet.stages import levels
from tfhet.stages.line import Line
from tfhet.stages.registry import register
from tfhet.stages.spec import ImageSpec
from tfhet.stages.stage import Stage


@register("invert")
@dataclass(frozen=True)
class Invert(Stage):
    """Computes 255 - x for uint8 and 1 - x for float32 in 0..1, as Pillow's `ImageOps.invert`; the dtype stays."""

    pointwise: ClassVar[bool] = True

    def spec(self, spec: ImageSpec) -> ImageSpec:
        return levels.full_range(self, spec)

    def apply(self, images: tf.Tensor, parameters: Mapping[str, tf.Tensor]) -> tf.Tensor:
        return 1.0 - images if images.dtype.is_floating else tf.bitwise.invert(images)

    def line(self, parameters: Mapping[str, tf.Tensor], spec: ImageSpec) -> Line:
        return Line.of(-1.0, levels.FULL[spec.dtype])
