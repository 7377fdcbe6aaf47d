"""Stages that change the levels of images: value by value, by statistics of the image, or by noise."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, ClassVar

import numpy as np
import tensorflow as tf

from tfhet import native
from tfhet.stages import levels, randomness
from tfhet.stages.levels import FullRange, Statistics
from tfhet.stages.line import Line, apply_line
from tfhet.stages.registry import register
from tfhet.stages.spec import ImageSpec
from tfhet.stages.stage import Fraction, Positive, PositiveOrZero, Within


@register("invert")
class Invert(FullRange):
    """Computes 255 - x for uint8 and 1 - x for float32 in 0..1, as Pillow's `ImageOps.invert`; the dtype stays."""

    pointwise: ClassVar[bool] = True

    def apply(self, images: tf.Tensor, parameters: Mapping[str, tf.Tensor]) -> tf.Tensor:
        return 1.0 - images if images.dtype.is_floating else tf.bitwise.invert(images)

    def line(self, parameters: Mapping[str, tf.Tensor], spec: ImageSpec) -> Line:
        return Line.of(-1.0, levels.FULL[spec.dtype])


@register("solarize")
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
        threshold = self.threshold / 255.0 if images.dtype.is_floating else self.threshold
        if (ops := native.ops("tone")) is not None:
            return native.shaped(ops.tfhet_solarize(images, threshold=threshold), images.shape)
        return tf.where(images >= tf.cast(threshold, images.dtype), Invert().apply(images, {}), images)


@register("posterize")
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
            exact = self.gain * (np.arange(256) / 255.0) ** self.gamma * 255.0
            table = np.minimum(np.floor(exact + 0.5), 255.0).astype(np.uint8)
            return levels.lookup(images, tf.constant(table[np.newaxis, :, np.newaxis]))
        if (ops := native.ops("power")) is not None:
            return native.shaped(ops.tfhet_power(images, gamma=self.gamma, gain=self.gain), images.shape)
        return tf.minimum(tf.pow(images, self.gamma) * self.gain, 1.0)


@register("random_brightness")
class RandomBrightness(FullRange):
    """Adds one uniform number to all values of an image, as `tf.image.random_brightness` does, and clips.

    Images are uint8 in 0..255 or float32 in 0..1; the dtype stays.
    """

    delta: Fraction = 0.2
    """Maximum that is added or subtracted, as a fraction of the full range: 0.2 is 51 levels of uint8. From 0 to 1."""

    pointwise: ClassVar[bool] = True

    def parameters(self, keys: tf.Tensor, spec: ImageSpec) -> dict[str, tf.Tensor]:
        """Returns `brightness`, the number that is added, as a fraction of the full range: float32 [batch]."""
        return {"brightness": randomness.uniform(keys, 0, -self.delta, self.delta)}

    def apply(self, images: tf.Tensor, parameters: Mapping[str, tf.Tensor]) -> tf.Tensor:
        return apply_line(images, self.line(parameters, ImageSpec.of(images)), images.dtype)

    def line(self, parameters: Mapping[str, tf.Tensor], spec: ImageSpec) -> Line:
        full = levels.FULL[spec.dtype]
        return Line.of(offset=parameters["brightness"] * full, low=0.0, high=full, per_image=True)


class _Stretching(FullRange):
    """A stage that is a line for each channel of each image, made of its statistics."""

    measures: ClassVar[bool] = True

    def apply(self, images: tf.Tensor, parameters: Mapping[str, tf.Tensor]) -> tf.Tensor:
        if (ops := native.ops("tone")) is not None:
            factors = parameters["contrast"] if self.random else tf.zeros([0])
            return native.shaped(ops.tfhet_contrast(images, factors), images.shape)
        line = self.line({**parameters, **self.measured(images)}, ImageSpec.of(images))
        assert line is not None
        return apply_line(images, line, images.dtype)


@register("autocontrast")
class Autocontrast(_Stretching):
    """Maps each channel's darkest value to 0 and its brightest to the full level; channels of one value stay.

    Images are uint8 in 0..255 or float32 in 0..1; the dtype stays. Results equal Pillow's
    `ImageOps.autocontrast`, except that uint8 results are rounded and not truncated.
    """

    def measured(self, images: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns `low` and `high`, the darkest and the brightest value: float32 [batch, channels]."""
        found = Statistics.of(images)
        return {"low": found.low, "high": found.high}

    def line(self, parameters: Mapping[str, tf.Tensor], spec: ImageSpec) -> Line:
        low, high, full = parameters["low"], parameters["high"], levels.FULL[spec.dtype]
        plain = high <= low
        scale = tf.where(plain, 1.0, full / tf.where(plain, 1.0, high - low))
        return Line.of(scale, tf.where(plain, 0.0, -low * scale), 0.0, full)


@register("random_contrast")
class RandomContrast(_Stretching):
    """Computes factor * (x - mean) + mean for each channel, as `tf.image.random_contrast` does, and clips it.

    Images are uint8 in 0..255 or float32 in 0..1; the dtype stays. `color_jitter` takes one mean for all channels.
    """

    lower: PositiveOrZero = 0.5
    """Smallest factor; 0 gives plain grey, 1 changes nothing. From 0."""
    upper: PositiveOrZero = 1.5
    """Largest factor. From `lower`."""

    ordered: ClassVar[tuple[tuple[str, str], ...]] = (("lower", "upper"),)

    def parameters(self, keys: tf.Tensor, spec: ImageSpec) -> dict[str, tf.Tensor]:
        """Returns `contrast`, the factor: float32 [batch]."""
        return {"contrast": randomness.uniform(keys, 0, self.lower, self.upper)}

    def measured(self, images: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns `mean`: float32 [batch, channels]."""
        return {"mean": Statistics.of(images).mean}

    def line(self, parameters: Mapping[str, tf.Tensor], spec: ImageSpec) -> Line:
        factor = parameters["contrast"][:, tf.newaxis]
        return Line.of(factor, parameters["mean"] * (1.0 - factor), 0.0, levels.FULL[spec.dtype])


@register("equalize")
class Equalize(FullRange):
    """Equalises the histogram of each channel of each image, bit for bit as Pillow's `ImageOps.equalize`.

    Images are uint8 in 0..255, or float32 in 0..1, which is rounded to 256 levels first. The dtype stays.
    """

    def apply(self, images: tf.Tensor, parameters: Mapping[str, tf.Tensor]) -> tf.Tensor:
        given = levels.in_levels(images)
        return levels.lookup(given, levels.as_given(equalizers(given), images.dtype))


def equalizers(images: tf.Tensor) -> tf.Tensor:
    """Returns uint8 [batch, 256, C], the new value of each level, for images uint8 [batch, H, W, C]."""
    if (ops := native.ops("statistics")) is not None:
        return native.shaped(ops.tfhet_equalizer(images), [images.shape[0], 256, images.shape[3]])
    batch, height, width, channels = tf.unstack(tf.shape(images))
    planes = tf.reshape(tf.transpose(tf.cast(images, tf.int32), [0, 3, 1, 2]), [batch * channels, height * width])
    below = tf.cumsum(tf.math.bincount(planes, minlength=256, maxlength=256, axis=-1), axis=1, exclusive=True)
    # A step is a 255th of the pixels below the brightest level; without such pixels levels stay unchanged.
    but_brightest = tf.reduce_max(below * tf.cast(below < height * width, tf.int32), axis=1, keepdims=True)
    step = but_brightest // 255
    spread = tf.minimum((below + step // 2) // tf.maximum(step, 1), 255)
    table = tf.where(step > 0, spread, tf.range(256))
    return tf.transpose(tf.cast(tf.reshape(table, [batch, channels, 256]), tf.uint8), [0, 2, 1])


@register("gaussian_noise")
class GaussianNoise(FullRange):
    """Adds normal noise of mean 0 to each value of each image, and clips it.

    Images are uint8 in 0..255 or float32 in 0..1; the dtype stays.
    """

    stddev: PositiveOrZero = 0.05
    """Standard deviation, as a fraction of the full range: 0.05 is 12.75 levels of uint8. From 0."""

    def parameters(self, keys: tf.Tensor, spec: ImageSpec) -> dict[str, tf.Tensor]:
        """Returns `noise`, uint64 [batch], from which all noise of an image derives (see `normals`)."""
        return {"noise": randomness.bits(keys, 0)}

    def apply(self, images: tf.Tensor, parameters: Mapping[str, tf.Tensor]) -> tf.Tensor:
        deviation = self.stddev * levels.FULL[images.dtype.name]
        if (ops := native.ops("noise")) is not None:
            return native.shaped(ops.tfhet_noise(images, parameters["noise"], deviation=deviation), images.shape)
        shape = tf.shape(images)
        noise = tf.reshape(normals(parameters["noise"], tf.reduce_prod(shape[1:])), shape)
        noisy = levels.restored(tf.cast(images, tf.float32) + noise * deviation, images.dtype)
        return native.shaped(noisy, images.shape)


def normals(seeds: tf.Tensor, count: tf.Tensor) -> tf.Tensor:
    """Returns normal numbers, float32 [batch, count], for seeds, uint64 [batch]. A row depends on its seed only, except
    for the last bit, which logarithm and cosine may round differently in another batch. Box-Muller takes 16 bits each
    for radius and angle, so one 64-bit word gives four numbers, none beyond 4.9."""
    words = tf.bitcast(tf.range(tf.cast((count + 3) // 4, tf.int64)), tf.uint64)
    halves = tf.bitcast(randomness.absorb(seeds[:, tf.newaxis], words), tf.int32)
    lower = tf.cast(tf.bitwise.bitwise_and(halves, 0xFFFF), tf.float32)
    upper = tf.cast(tf.bitwise.right_shift(halves, 16), tf.float32)
    radius = tf.sqrt(-2.0 * tf.math.log((lower + 0.5) * 2.0**-16))
    angle = upper * (2.0 * math.pi * 2.0**-16)
    pair = [tf.reshape(radius * wave(angle), [-1, 2 * tf.size(words)]) for wave in (tf.cos, tf.sin)]
    return tf.concat(pair, axis=1)[:, :count]
