"""Brings all images to one size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

import tensorflow as tf

from tfhet import native
from tfhet.stages import projection
from tfhet.stages.geometric import Geometric
from tfhet.stages.registry import register
from tfhet.stages.resampling import resize_windows
from tfhet.stages.spec import ImageSpec
from tfhet.stages.stage import Count
from tfhet.stages.window import Window

METHODS = ("area", "bicubic", "bilinear", "nearest")
OVERSHOOT = (1.25**2 - 1.0) / 2.0
"""Maximum distance of a bicubic value from the range, as a fraction of it: halfway between two pixels the weights of
the Keys cubic (a = -0.5) along one axis are -1/16, 9/16, 9/16, -1/16, whose magnitudes add up to 1.25."""


@register("resize")
@dataclass(frozen=True)
class Resize(Window, Geometric):
    """Resizes images as `tf.image.resize` does, without keeping the aspect; uint8 results are rounded.

    After `decode` the method has to be bilinear.
    """

    height: Count = 224
    """Rows of the result, from 1."""
    width: Count = 224
    """Columns of the result, from 1."""
    method: Annotated[str, METHODS] = "bilinear"
    """bilinear, nearest, area (the mean of the covered pixels, best for shrinking) or bicubic."""
    antialias: bool = False
    """Whether each pixel of a shrunken image is a weighted mean of the pixels that it covers; for bilinear only."""

    keeps_range: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.antialias and self.method != "bilinear":
            self.refuse(f"antialias goes with method bilinear, not {self.method}")

    @property
    def commutes_with_rescale(self) -> bool:
        # Bicubic values overshoot: uint8 cuts them off, float32 would keep them.
        return self.method != "bicubic"

    def spec(self, spec: ImageSpec) -> ImageSpec:
        """Returns the spec of the new size; `bicubic` widens the range of float32, as it overshoots at edges."""
        resized = super().spec(spec)
        if spec.ragged and self.method != "bilinear":
            self.refuse(f"after decode the method must be bilinear, not {self.method}")
        if self.method != "bicubic" or spec.dtype == "uint8":
            return resized
        beyond = OVERSHOOT * (spec.high - spec.low)
        return replace(resized, low=spec.low - beyond, high=spec.high + beyond)

    @property
    def moves(self) -> bool:
        return self.method == "bilinear" and not self.antialias

    @property
    def fill(self) -> tuple[str, float]:
        """Reaches at most half a pixel beyond the edge, where a mirrored image equals its edge."""
        return "reflect", 0.0

    def size(self, spec: ImageSpec) -> tuple[int, int]:
        return self.height, self.width

    def transforms(self, parameters: Mapping[str, tf.Tensor], height: tf.Tensor, width: tf.Tensor) -> tf.Tensor:
        return projection.resizing(height, width, self.height, self.width)

    @property
    def bilinear(self) -> bool:
        return self.method == "bilinear"

    def windows(self, parameters: Mapping[str, tf.Tensor], sizes: tf.Tensor) -> tf.Tensor:
        return tf.cast(tf.concat([tf.zeros_like(sizes), sizes], axis=1), tf.float32)

    def apply(self, images: tf.Tensor, parameters: Mapping[str, tf.Tensor]) -> tf.Tensor:
        if self.method == "bilinear" and native.available("resize") and isinstance(images, tf.Tensor):
            windows = self.windows(parameters, tf.shape(images)[tf.newaxis, 1:3])  # one for all images
            return resize_windows(images, windows, None, self.height, self.width, self.antialias, self.confined)
        if isinstance(images, tf.RaggedTensor):
            return super().apply(images, parameters)
        resized = tf.image.resize(images, [self.height, self.width], self.method, antialias=self.antialias)
        if resized.dtype == images.dtype:
            return resized
        if self.method == "bicubic":
            resized = tf.clip_by_value(resized, float(images.dtype.min), float(images.dtype.max))
        return tf.cast(tf.round(resized), images.dtype)
