"""Computes scale * x + offset as float32."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import tensorflow as tf

from tfhet.stages.line import Line, apply_line
from tfhet.stages.registry import register
from tfhet.stages.spec import ImageSpec
from tfhet.stages.stage import Stage


@register("rescale")
@dataclass(frozen=True)
class Rescale(Stage):
    """Computes scale * x + offset as float32, as the Keras layer Rescaling does."""

    scale: float = 1.0 / 255.0
    """Factor; positive."""
    offset: float = 0.0
    """Added after scaling."""

    keeps_range: ClassVar[bool] = False
    rescales: ClassVar[bool] = True
    pointwise: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        # A negative factor would turn a maximum into a minimum, so that the stage would commute with no other.
        if not (self.scale > 0 and math.isfinite(self.scale) and math.isfinite(self.offset)):
            self.refuse(f"scale is positive and finite, offset finite; not {self.scale}, {self.offset}")

    def spec(self, spec: ImageSpec) -> ImageSpec:
        low, high = (self.scale * bound + self.offset for bound in (spec.low, spec.high))
        return replace(spec, dtype="float32", low=low, high=high)

    def apply(self, images: tf.Tensor, parameters: Mapping[str, tf.Tensor]) -> tf.Tensor:
        return apply_line(images, self._line(), tf.float32)

    def line(self, parameters: Mapping[str, tf.Tensor], spec: ImageSpec) -> Line:
        return self._line()

    def _line(self) -> Line:
        return Line.of(self.scale, self.offset)
