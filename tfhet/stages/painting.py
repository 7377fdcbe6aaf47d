"""Stages that paint over a rectangle of each image: cutout and random_erasing."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from tfhet import native
from tfhet.stages import randomness
from tfhet.stages.registry import register
from tfhet.stages.spec import ImageSpec
from tfhet.stages.stage import Count, Fraction, Stage

RATIOS = 4096
"""Number of different shapes; a power of 2, so that products with it are exact."""


class _Painting(Stage):
    value: float
    """Value that is painted, within the range of the images; a whole number for uint8."""

    def spec(self, spec: ImageSpec) -> ImageSpec:
        self.check_value("value", self.value, spec, whole=True)
        return spec


@register("cutout")
class Cutout(_Painting):
    """Paints over a square of each image, whose centre is any pixel (DeVries and Taylor, arXiv:1708.04552).

    The square is cut at the edges, as by the `cutout` of Addons; its `random_cutout` keeps the whole square inside.
    Images are uint8 or float32 of any range; the dtype stays.
    """

    size: Count = 8
    """Side of the square in pixels, from 1; for an even size the centre is the pixel right of and below the middle."""
    value: float = 0.0

    def parameters(self, keys: tf.Tensor, spec: ImageSpec) -> dict[str, tf.Tensor]:
        """Returns `centre_y`, `centre_x`: float32 [batch], fractions of height and width, from 0 to below 1."""
        return {"centre_y": randomness.uniform(keys, 0), "centre_x": randomness.uniform(keys, 1)}

    def apply(self, images: tf.Tensor, parameters: Mapping[str, tf.Tensor]) -> tf.Tensor:
        top = self._first(parameters["centre_y"], tf.shape(images)[1])
        left = self._first(parameters["centre_x"], tf.shape(images)[2])
        return painted(images, top, top + float(self.size), left, left + float(self.size), self.value)

    def _first(self, centres: tf.Tensor, length: tf.Tensor) -> tf.Tensor:
        pixels = tf.cast(length, tf.float32)
        # The product may round up to the length itself, which is one too far.
        return tf.minimum(tf.floor(centres * pixels), pixels - 1.0) - float(self.size // 2)


@register("random_erasing")
class RandomErasing(_Painting):
    """Paints over a rectangle of uniform area, log-uniform shape and uniform place (Zhong et al., arXiv:1708.04896).

    A side that is longer than the image is cut, where the paper draws again. Images are uint8 or float32 of any range;
    the dtype stays.
    """

    probability: Fraction = 0.5
    """Probability that an image gets a rectangle. From 0 to 1."""
    scale: tuple[float, float] = (0.02, 0.33)
    """Minimum and maximum area, as a fraction of the image's. From 0 to 1."""
    ratio: tuple[float, float] = (0.3, 3.3)
    """Minimum and maximum height / width. Positive."""
    value: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, most in (("scale", 1.0), ("ratio", math.inf)):
            pair = getattr(self, name)
            numbers = isinstance(pair, (tuple, list)) and all(type(n) in (int, float) for n in pair)
            if not numbers or len(pair) != 2 or not 0.0 < pair[0] <= pair[1] <= most or math.isinf(pair[1]):
                self.refuse(f"{name} is a pair of positive numbers, the smaller first, up to {most:g}; not {pair!r}")
            object.__setattr__(self, name, (float(pair[0]), float(pair[1])))

    def parameters(self, keys: tf.Tensor, spec: ImageSpec) -> dict[str, tf.Tensor]:
        """Returns `erase`, bool [batch], and float32 [batch]: `area`, a fraction of the image, `ratio`, height / width,
        and `top` and `left`, fractions, below 1, of the room that the rectangle leaves."""
        # From a table, because tf.exp rounds differently at the end of a batch than within it.
        shares = (np.arange(RATIOS) + 0.5) / RATIOS
        ratios = tf.constant(self.ratio[0] * (self.ratio[1] / self.ratio[0]) ** shares, tf.float32)
        return {
            "erase": randomness.bernoulli(keys, 0, self.probability),
            "area": randomness.uniform(keys, 1, *self.scale),
            "ratio": tf.gather(ratios, randomness.below(keys, 2, RATIOS)),
            "top": randomness.uniform(keys, 3),
            "left": randomness.uniform(keys, 4),
        }

    def apply(self, images: tf.Tensor, parameters: Mapping[str, tf.Tensor]) -> tf.Tensor:
        height, width = (tf.cast(length, tf.float32) for length in tf.unstack(tf.shape(images)[1:3]))
        area, ratio = parameters["area"] * height * width, parameters["ratio"]
        tall = tf.minimum(tf.round(tf.sqrt(area * ratio)), height)
        wide = tf.minimum(tf.round(tf.sqrt(area / ratio)), width)
        # The product may round up to the room itself, which is one too far.
        top = tf.minimum(tf.floor(parameters["top"] * (height - tall + 1.0)), height - tall)
        left = tf.minimum(tf.floor(parameters["left"] * (width - wide + 1.0)), width - wide)
        tall *= tf.cast(parameters["erase"], tf.float32)
        return painted(images, top, top + tall, left, left + wide, self.value)


def painted(
    images: tf.Tensor, top: tf.Tensor, bottom: tf.Tensor, left: tf.Tensor, right: tf.Tensor, value: float
) -> tf.Tensor:
    """Returns images, uint8 or finite float32 [batch, H, W, C], with `value` in a rectangle of each. Its sides are
    float32 [batch] in pixels, bottom and right just outside; all may lie beyond the edges."""
    if (ops := native.ops("painting")) is not None:
        result = ops.tfhet_painting(images, tf.stack([top, bottom, left, right], axis=1), value=value)
        return native.shaped(result, images.shape)
    return tf.where(inside(tf.shape(images), top, bottom, left, right), tf.cast(value, images.dtype), images)


def inside(shape: tf.Tensor, top: tf.Tensor, bottom: tf.Tensor, left: tf.Tensor, right: tf.Tensor) -> tf.Tensor:
    """Returns which pixels are in the rectangles: bool [batch, H, W, 1]. shape: of the images."""
    rows, columns = (tf.range(tf.cast(length, tf.float32)) for length in (shape[1], shape[2]))
    in_rows = (rows >= top[:, tf.newaxis]) & (rows < bottom[:, tf.newaxis])
    in_columns = (columns >= left[:, tf.newaxis]) & (columns < right[:, tf.newaxis])
    return (in_rows[:, :, tf.newaxis] & in_columns[:, tf.newaxis, :])[..., tf.newaxis]
