"""Changes the dtype of images, not their values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import tensorflow as tf

from tfhet.errors import unknown
from tfhet.stages import levels
from tfhet.stages.line import Line, apply_line
from tfhet.stages.registry import register
from tfhet.stages.spec import ImageSpec
from tfhet.stages.stage import Stage


@register("cast")
@dataclass(frozen=True)
class Cast(Stage):
    """Converts uint8 or float32 images to `dtype` without rescaling: 0..255 becomes 0.0..255.0.

    Values become uint8 by rounding and clipping to 0..255. Images in 0..1 need `rescale(255)` before `cast("uint8")`.
    """

    dtype: str = "float32"
    """`uint8` or `float32`."""

    keeps_range: ClassVar[bool] = False
    pointwise: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.dtype not in levels.FULL:
            unknown(f"dtype of stage {self.name}", self.dtype, levels.FULL)

    def spec(self, spec: ImageSpec) -> ImageSpec:
        if self.dtype == spec.dtype or self.dtype == "float32":
            return replace(spec, dtype=self.dtype)
        low, high = (float(int(min(max(bound, 0.0), 255.0) + 0.5)) for bound in (spec.low, spec.high))
        return replace(spec, dtype=self.dtype, low=low, high=high)

    def apply(self, images: tf.Tensor, parameters: Mapping[str, tf.Tensor]) -> tf.Tensor:
        if images.dtype.name == self.dtype or self.dtype == "float32":
            return tf.cast(images, self.dtype)
        return apply_line(images, Line.of(), tf.uint8)

    def line(self, parameters: Mapping[str, tf.Tensor], spec: ImageSpec) -> Line:
        return Line.of(low=0.0, high=255.0) if self.dtype == "uint8" else Line.of()
