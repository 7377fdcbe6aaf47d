"""Stages that spread the levels of each image by statistics of them: autocontrast, random_contrast and equalize."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import tensorflow as tf

from tfhet import native
from tfhet.stages import levels, randomness
from tfhet.stages.levels import FullRange
from tfhet.stages.line import Line, apply_line
from tfhet.stages.registry import register
from tfhet.stages.spec import ImageSpec
from tfhet.stages.stage import PositiveOrZero
from tfhet.stages.statistics import Statistics


class _Stretching(FullRange):
    """A stage that is a line for each channel of each image, made of its statistics."""

    measures: ClassVar[bool] = True

    def apply(self, images: tf.Tensor, parameters: Mapping[str, tf.Tensor]) -> tf.Tensor:
        ops = native.ops("tone")
        if ops is not None:
            factors = parameters["contrast"] if self.random else tf.zeros([0])
            return native.shaped(ops.tfhet_contrast(images, factors), images.shape)
        line = self.line({**parameters, **self.measured(images)}, ImageSpec.of(images))
        assert line is not None
        return apply_line(images, line, images.dtype)


@register("autocontrast")
@dataclass(frozen=True)
class Autocontrast(_Stretching):
    """Maps each channel's darkest value to 0 and its brightest to the full level; channels of one value stay.

    Images are uint8 in 0..255 or float32 in 0..1; the dtype stays. Results are those of Pillow's
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
@dataclass(frozen=True)
class RandomContrast(_Stretching):
    """Computes factor * (x - mean) + mean for each channel, as `tf.image.random_contrast` does, and clips it.

    Images are uint8 in 0..255 or float32 in 0..1; the dtype stays. `color_jitter` takes one mean for all channels.
    """

    lower: PositiveOrZero = 0.5
    """Smallest factor; 0 gives plain grey, 1 changes nothing. From 0."""
    upper: PositiveOrZero = 1.5
    """Largest factor. From `lower`."""

    random: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.lower > self.upper:
            self.refuse(f"lower is at most upper, not {self.lower}, {self.upper}")

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
@dataclass(frozen=True)
class Equalize(FullRange):
    """Equalises the histogram of each channel of each image, bit for bit as Pillow's `ImageOps.equalize`.

    Images are uint8 in 0..255, or float32 in 0..1, which is rounded to 256 levels first. The dtype stays.
    """

    def apply(self, images: tf.Tensor, parameters: Mapping[str, tf.Tensor]) -> tf.Tensor:
        given = levels.in_levels(images)
        return levels.lookup(given, levels.as_given(equalizers(given), images.dtype))


def equalizers(images: tf.Tensor) -> tf.Tensor:
    """Returns uint8 [batch, 256, C], the new value of each level, for images uint8 [batch, H, W, C]."""
    ops = native.ops("statistics")
    if ops is not None:
        return native.shaped(ops.tfhet_equalizer(images), [images.shape[0], 256, images.shape[3]])
    batch, height, width, channels = tf.unstack(tf.shape(images))
    planes = batch * channels
    # One histogram for all planes: plane p counts in the bins 256 p to 256 p + 255.
    first = tf.reshape(tf.range(planes) * 256, [batch, 1, 1, channels])
    bins = tf.cast(images, tf.int32) + first
    counts = tf.raw_ops.DenseBincount(
        input=tf.reshape(bins, [-1]), size=planes * 256, weights=tf.constant([], tf.int32), binary_output=False
    )
    below = tf.cumsum(tf.reshape(counts, [planes, 256]), axis=1, exclusive=True)
    # A step is a 255th of the pixels below the brightest level; without such pixels levels stay unchanged.
    but_brightest = tf.reduce_max(below * tf.cast(below < height * width, tf.int32), axis=1, keepdims=True)
    step = but_brightest // 255
    spread = tf.minimum((below + step // 2) // tf.maximum(step, 1), 255)
    table = tf.where(step > 0, spread, tf.range(256))
    return tf.transpose(tf.cast(tf.reshape(table, [batch, channels, 256]), tf.uint8), [0, 2, 1])
