"""Stages that change each value by itself: invert, solarize, posterize, gamma and random_brightness."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
import tensorflow as tf

from tfhet import native
from tfhet.stages import levels, randomness
from tfhet.stages.levels import FullRange
from tfhet.stages.line import Line, apply_line
from tfhet.stages.registry import register
from tfhet.stages.spec import ImageSpec
from tfhet.stages.stage import Fraction, Positive, Within


@register("invert")
@dataclass(frozen=True)
class Invert(FullRange):
    """Computes 255 - x for uint8 and 1 - x for float32 in 0..1, as Pillow's `ImageOps.invert`; the dtype stays."""

    pointwise: ClassVar[bool] = True

    def apply(self, images: tf.Tensor, parameters: Mapping[str, tf.Tensor]) -> tf.Tensor:
        return 1.0 - images if images.dtype.is_floating else tf.bitwise.invert(images)

    def line(self, parameters: Mapping[str, tf.Tensor], spec: ImageSpec) -> Line:
        return Line.of(-1.0, levels.FULL[spec.dtype])


@register("solarize")
@dataclass(frozen=True)
class Solarize(FullRange):
    """Replaces values from the threshold up by their negative, as Pillow's `ImageOps.solarize` does.

    Images are uint8 in 0..255 or float32 in 0..1; the dtype stays.
    """

    threshold: Annotated[int, Within(0, 256)] = 128
    """Threshold in levels of uint8, from 0 (a plain negative) to 256 (no change); for float32 it is threshold / 255."""

    pointwise: ClassVar[bool] = True

    def apply(self, images: tf.Tensor, parameters: Mapping[str, tf.Tensor]) -> tf.Tensor:
        if self.threshold == 256:
            return images
        ops = native.ops("tone")
        if ops is not None:
            threshold = self.threshold / 255.0 if images.dtype.is_floating else float(self.threshold)
            return native.shaped(ops.tfhet_solarize(images, threshold=threshold), images.shape)
        # A mask in arithmetic takes 0.5 ns a value, a tf.where on bytes 4.8.
        if images.dtype.is_floating:
            bright = tf.cast(images >= self.threshold / 255.0, images.dtype)
            return images + bright * (1.0 - 2.0 * images)
        bright = tf.cast(images >= tf.constant(self.threshold, tf.uint8), tf.uint8) * tf.constant(255, tf.uint8)
        return tf.bitwise.bitwise_xor(images, bright)


@register("posterize")
@dataclass(frozen=True)
class Posterize(FullRange):
    """Clears the lowest bits of each value, as Pillow's `ImageOps.posterize` does.

    Images are uint8 in 0..255, or float32 in 0..1, which is rounded to 256 levels first. The dtype stays.
    """

    bits: Annotated[int, Within(1, 8)] = 4
    """Number of bits that stay, from 1 to 8."""

    pointwise: ClassVar[bool] = True

    def apply(self, images: tf.Tensor, parameters: Mapping[str, tf.Tensor]) -> tf.Tensor:
        kept = 256 - 2 ** (8 - self.bits)
        if images.dtype.is_floating and native.available("tone"):
            table = tf.constant((np.arange(256) & kept)[np.newaxis, :, np.newaxis], tf.uint8)
            return levels.lookup(images, levels.as_given(table, images.dtype))
        posterized = tf.bitwise.bitwise_and(levels.in_levels(images), tf.constant(kept, tf.uint8))
        return levels.as_given(posterized, images.dtype)


@register("gamma")
@dataclass(frozen=True)
class Gamma(FullRange):
    """Computes gain * x**gamma, with 1 as the brightest level, and clips it, as `tf.image.adjust_gamma` does.

    Images are uint8 in 0..255 (by a table of 256 values) or float32 in 0..1; the dtype stays.
    """

    gamma: Positive = 1.0
    """Exponent; below 1 lightens, above 1 darkens. Positive."""
    gain: Positive = 1.0
    """Factor; positive."""

    pointwise: ClassVar[bool] = True

    def apply(self, images: tf.Tensor, parameters: Mapping[str, tf.Tensor]) -> tf.Tensor:
        if not images.dtype.is_floating:
            return levels.lookup(images, tf.constant(self.table()[np.newaxis, :, np.newaxis]))
        ops = native.ops("power")
        if ops is not None:
            return native.shaped(ops.tfhet_power(images, gamma=self.gamma, gain=self.gain), images.shape)
        # log(0) is -inf, and its exponential 0 again. tf.pow takes five times as long.
        return tf.minimum(tf.exp(tf.math.log(images) * self.gamma) * self.gain, 1.0)

    def table(self) -> np.ndarray:
        """Returns the new value of each level, rounded: uint8 [256]."""
        exact = self.gain * (np.arange(256) / 255.0) ** self.gamma * 255.0
        return np.minimum(np.floor(exact + 0.5), 255.0).astype(np.uint8)


@register("random_brightness")
@dataclass(frozen=True)
class RandomBrightness(FullRange):
    """Adds one uniform number to all values of an image, as `tf.image.random_brightness` does, and clips.

    Images are uint8 in 0..255 or float32 in 0..1; the dtype stays.
    """

    delta: Fraction = 0.2
    """Maximum that is added or subtracted, as a fraction of the full range: 0.2 is 51 levels of uint8. From 0 to 1."""

    random: ClassVar[bool] = True
    pointwise: ClassVar[bool] = True

    def parameters(self, keys: tf.Tensor, spec: ImageSpec) -> dict[str, tf.Tensor]:
        """Returns `brightness`, the number that is added, as a fraction of the full range: float32 [batch]."""
        return {"brightness": randomness.uniform(keys, 0, -self.delta, self.delta)}

    def apply(self, images: tf.Tensor, parameters: Mapping[str, tf.Tensor]) -> tf.Tensor:
        return apply_line(images, self.line(parameters, ImageSpec.of(images)), images.dtype)

    def line(self, parameters: Mapping[str, tf.Tensor], spec: ImageSpec) -> Line:
        full = levels.FULL[spec.dtype]
        return Line.per_image(offset=parameters["brightness"] * full, low=0.0, high=full)
