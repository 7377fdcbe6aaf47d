"""Stages that bring images to one size: resize, resized_center_crop and random_resized_crop."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, ClassVar

import tensorflow as tf

from tfhet.stages import projection, randomness
from tfhet.stages.projection import Geometric
from tfhet.stages.registry import register
from tfhet.stages.resampling import Window
from tfhet.stages.spec import ImageSpec
from tfhet.stages.stage import Count, Positive, Within

METHODS = ("area", "bicubic", "bilinear", "nearest")
OVERSHOOT = (1.25**2 - 1.0) / 2.0
"""Maximum distance of a bicubic value from the range, as a fraction of it: halfway between two pixels the weights of
the Keys cubic (a = -0.5) along one axis are -1/16, 9/16, 9/16, -1/16, whose magnitudes add up to 1.25."""


@register("resize")
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
        if self.bilinear:
            return super().apply(images, parameters)
        resized = tf.image.resize(images, [self.height, self.width], self.method)
        if resized.dtype == images.dtype:
            return resized
        if self.method == "bicubic":
            resized = tf.clip_by_value(resized, float(images.dtype.min), float(images.dtype.max))
        return tf.cast(tf.round(resized), images.dtype)


@register("resized_center_crop")
class ResizedCenterCrop(Window):
    """Does torchvision's Resize(shorter) and CenterCrop((height, width)), to the pixel, in one bilinear sampling.

    Only the pixels that the crop shows are sampled; uint8 results are rounded once.
    """

    height: int = 224
    """Rows of the result, from 1 to `shorter`."""
    width: int = 224
    """Columns of the result, from 1 to `shorter`."""
    shorter: int = 256
    """Length of the resized image's shorter side."""
    antialias: bool = False
    """Whether a pixel of a shrunken image is a mean of the pixels that it covers, torchvision's default."""

    commutes_with_rescale: ClassVar[bool] = True
    confined: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= min(self.height, self.width) <= max(self.height, self.width) <= self.shorter:
            self.refuse(f"height and width are 1 to shorter, {self.shorter}, not {self.height}, {self.width}")

    def windows(self, parameters: Mapping[str, tf.Tensor], sizes: tf.Tensor) -> tf.Tensor:
        resized = self.shorter * sizes // tf.reduce_min(sizes, axis=1, keepdims=True)
        steps = tf.cast(sizes, tf.float32) / tf.cast(resized, tf.float32)
        # Halves are rounded to even, as by Python's round.
        first = tf.round(tf.cast(resized - [self.height, self.width], tf.float32) / 2.0)
        return tf.concat([first * steps, [float(self.height), float(self.width)] * steps], axis=1)


TRIES = 10
"""Number of boxes that random_resized_crop draws for each image; the first that fits is taken."""


@register("random_resized_crop")
class RandomResizedCrop(Window):
    """Cuts out a part of random area and aspect and resizes it, as torchvision's RandomResizedCrop.

    The sampling is bilinear between centres of pixels, and the part repeats its own edge. uint8 results are rounded.
    Ten boxes are drawn at once and the first that fits is taken, so the result has the distribution of torchvision's
    loop, which stops at the first that fits. If none fits, the crop is torchvision's central crop.
    """

    height: Count = 224
    """Rows of the result, from 1."""
    width: Count = 224
    """Columns of the result, from 1."""
    scale_low: Positive = 0.08
    """Minimum area of the part, as a fraction of the image's. Above 0."""
    scale_high: Annotated[float, Within(0, 1, above=True)] = 1.0
    """Maximum area of the part. From scale_low to 1."""
    ratio_low: Positive = 3 / 4
    """Minimum width / height of the part, whose logarithm is uniform. Above 0."""
    ratio_high: Positive = 4 / 3
    """Maximum width / height of the part. From ratio_low."""
    antialias: bool = False
    """Whether each pixel of a shrunken part is a weighted mean of the pixels that it covers, torchvision's default."""

    commutes_with_rescale: ClassVar[bool] = True
    ordered: ClassVar[tuple[tuple[str, str], ...]] = (("scale_low", "scale_high"), ("ratio_low", "ratio_high"))

    def spec(self, spec: ImageSpec) -> ImageSpec:
        result = super().spec(spec)
        if not spec.ragged:
            self.known_size(spec)
        return result

    def parameters(self, keys: tf.Tensor, spec: ImageSpec) -> dict[str, tf.Tensor]:
        """Returns `box`, int32 [batch, 4]: the part's first row, first column, rows and columns in the image. For
        images of different sizes it returns the numbers that boxes are made of, float32: `areas` [batch, TRIES], as
        fractions, `ratios` [batch, TRIES], and `places` [batch, 2], as fractions of the room that is left."""
        self.spec(spec)
        tries = tf.range(TRIES, dtype=tf.int64)
        drawn = {
            "areas": randomness.uniform(keys[:, None], tries, self.scale_low, self.scale_high),
            "ratios": tf.exp(
                randomness.uniform(keys[:, None], TRIES + tries, math.log(self.ratio_low), math.log(self.ratio_high))
            ),
            "places": randomness.uniform(keys[:, None], 2 * TRIES + tf.range(2, dtype=tf.int64)),
        }
        return drawn if spec.ragged else {"box": self._boxes(drawn, tf.constant([[spec.height, spec.width]], tf.int32))}

    def windows(self, parameters: Mapping[str, tf.Tensor], sizes: tf.Tensor) -> tf.Tensor:
        return tf.cast(parameters["box"] if "box" in parameters else self._boxes(parameters, sizes), tf.float32)

    def _boxes(self, drawn: Mapping[str, tf.Tensor], sizes: tf.Tensor) -> tf.Tensor:
        """Returns the first box that fits, int32 [batch, 4]. sizes: int32 [1 or batch, 2]."""
        rows, columns = tf.cast(sizes[:, :1], tf.float32), tf.cast(sizes[:, 1:], tf.float32)
        areas, ratios = drawn["areas"] * (rows * columns), drawn["ratios"]
        heights, widths = tf.round(tf.sqrt(areas / ratios)), tf.round(tf.sqrt(areas * ratios))
        fits = (heights >= 1.0) & (heights <= rows) & (widths >= 1.0) & (widths <= columns)
        first = tf.argmax(tf.cast(fits, tf.int8), axis=1)
        tried = tf.stack([tf.gather(side, first, batch_dims=1) for side in (heights, widths)], axis=1)
        room = tf.concat([rows, columns], axis=1) - tried
        # Truncated to whole numbers; u < 1 - 2**-25, so that the number of places itself is not reached.
        tried = tf.concat([tf.floor(drawn["places"] * (room + 1.0)), tried], axis=1)
        boxes = tf.where(tf.reduce_any(fits, axis=1, keepdims=True), tried, self._central(rows, columns))
        return tf.cast(boxes, tf.int32)

    def _central(self, rows: tf.Tensor, columns: tf.Tensor) -> tf.Tensor:
        """Returns the central box that comes closest to the ratios, float32 [1 or batch, 4]: where no box fits."""
        heights = tf.minimum(rows, tf.maximum(1.0, tf.round(columns / self.ratio_low)))
        widths = tf.minimum(columns, tf.maximum(1.0, tf.round(rows * self.ratio_high)))
        return tf.concat([(rows - heights) // 2.0, (columns - widths) // 2.0, heights, widths], axis=1)
