"""Brings all images to one size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import tensorflow as tf

from tfhet.errors import unknown
from tfhet.stages.registry import register
from tfhet.stages.spec import ImageSpec
from tfhet.stages.stage import Stage

METHODS = ("area", "bicubic", "bilinear", "nearest")
OVERSHOOT = (1.25**2 - 1.0) / 2.0
"""How far a bicubic value can lie outside the range, as a fraction of it: halfway between two pixels the weights of the
Keys cubic (a = -0.5) along one axis are -1/16, 9/16, 9/16, -1/16, whose magnitudes add up to 1.25."""


@register("resize")
@dataclass(frozen=True)
class Resize(Stage):
    """`tf.image.resize` without antialiasing; the aspect is not kept. uint8 comes out rounded to the nearest level."""

    height: int = 224
    """Rows of the result, from 1."""
    width: int = 224
    """Columns of the result, from 1."""
    method: str = "bilinear"
    """bilinear, nearest, area (the mean of what a pixel covers: best for shrinking) or bicubic."""

    keeps_shape: ClassVar[bool] = False
    keeps_range: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.height < 1 or self.width < 1:
            self.refuse(f"height and width are at least 1, not {self.height}, {self.width}")
        if self.method not in METHODS:
            unknown(f"method of stage {self.name}", self.method, METHODS)
        # Bicubic values overshoot, and uint8 cuts them off: behind a rescale they would be kept.
        object.__setattr__(self, "commutes_with_rescale", self.method != "bicubic")

    def spec(self, spec: ImageSpec) -> ImageSpec:
        """The size asked for; float32 gets a wider range from `bicubic`, which overshoots at edges."""
        resized = replace(spec, height=self.height, width=self.width)
        if self.method != "bicubic" or spec.dtype == "uint8":
            return resized
        beyond = OVERSHOOT * (spec.high - spec.low)
        return replace(resized, low=spec.low - beyond, high=spec.high + beyond)

    def apply(self, images: tf.Tensor, parameters: Mapping[str, tf.Tensor]) -> tf.Tensor:
        resized = tf.image.resize(images, [self.height, self.width], self.method)
        if resized.dtype == images.dtype:
            return resized
        if self.method == "bicubic":
            resized = tf.clip_by_value(resized, float(images.dtype.min), float(images.dtype.max))
        return tf.cast(tf.round(resized), images.dtype)
