"""Cuts a part of random area and aspect out of each image, and resizes it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import tensorflow as tf

from tfhet.stages import randomness
from tfhet.stages.registry import register
from tfhet.stages.spec import ImageSpec
from tfhet.stages.stage import Count, Positive
from tfhet.stages.window import Window

TRIES = 10
"""Number of boxes that random_resized_crop draws for each image; the first that fits is taken."""


@register("random_resized_crop")
@dataclass(frozen=True)
class RandomResizedCrop(Window):
    """Cuts out a part of random area and aspect and resizes it, as torchvision's RandomResizedCrop.

    The sampling is bilinear between centres of pixels, and the part repeats its own edge. uint8 results are rounded.
    Ten boxes are drawn at once and the first that fits is taken, so the result has the distribution of torchvision's
    loop, which stops at the first that fits. Where none fits, it is the same central crop.
    """

    height: Count = 224
    """Rows of the result, from 1."""
    width: Count = 224
    """Columns of the result, from 1."""
    scale_low: Positive = 0.08
    """Minimum area of the part, as a fraction of the image's. Above 0."""
    scale_high: Positive = 1.0
    """Maximum area of the part. From scale_low to 1."""
    ratio_low: Positive = 3 / 4
    """Minimum width / height of the part, whose logarithm is uniform. Above 0."""
    ratio_high: Positive = 4 / 3
    """Maximum width / height of the part. From ratio_low."""
    antialias: bool = False
    """Whether each pixel of a shrunken part is a weighted mean of the pixels that it covers, torchvision's default."""

    random: ClassVar[bool] = True
    commutes_with_rescale: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.scale_low <= self.scale_high <= 1.0:
            self.refuse(f"scale_low <= scale_high <= 1, not {self.scale_low}, {self.scale_high}")
        if self.ratio_low > self.ratio_high:
            self.refuse(f"ratio_low <= ratio_high, not {self.ratio_low}, {self.ratio_high}")

    def spec(self, spec: ImageSpec) -> ImageSpec:
        result = super().spec(spec)
        if not spec.ragged and (spec.height is None or spec.width is None):
            self.refuse("height and width of the images must be known: resize them before")
        return result

    def parameters(self, keys: tf.Tensor, spec: ImageSpec) -> dict[str, tf.Tensor]:
        """Returns `box`, int32 [batch, 4]: the part's first row, first column, rows and columns in the image.

        For images of different sizes it returns the numbers that boxes are made of, float32: `areas` [batch, TRIES], as
        fractions, `ratios` [batch, TRIES], and `places` [batch, 2], as fractions of the room that is left.
        """
        self.spec(spec)
        tries = tf.range(TRIES, dtype=tf.int64)
        drawn = {
            "areas": randomness.uniform(keys[:, None], tries, self.scale_low, self.scale_high),
            "ratios": tf.exp(
                randomness.uniform(keys[:, None], TRIES + tries, math.log(self.ratio_low), math.log(self.ratio_high))
            ),
            "places": randomness.uniform(keys[:, None], 2 * TRIES + tf.range(2, dtype=tf.int64)),
        }
        if spec.ragged:
            return drawn
        sizes = tf.constant([[spec.height, spec.width]], tf.int32)
        return {"box": self._boxes(drawn, sizes)}

    def windows(self, parameters: Mapping[str, tf.Tensor], sizes: tf.Tensor) -> tf.Tensor:
        box = parameters["box"] if "box" in parameters else self._boxes(parameters, sizes)
        return tf.cast(box, tf.float32)

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
