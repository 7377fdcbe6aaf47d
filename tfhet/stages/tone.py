"""Stages that change the levels of images: value by value, by statistics of the image, or by noise."""

from __future__ import annotations

from typing import Annotated, ClassVar

from tfhet.stages.levels import FullRange
from tfhet.stages.registry import register
from tfhet.stages.stage import Fraction, Positive, PositiveOrZero, Within


@register("invert")
class Invert(FullRange):
    """Computes 255 - x for uint8 and 1 - x for float32 in 0..1, as Pillow's `ImageOps.invert`; the dtype stays."""

    is_line: ClassVar[bool] = True
    pointwise: ClassVar[bool] = True


@register("solarize")
class Solarize(FullRange):
    """Replaces values from the threshold up by their negative, as Pillow's `ImageOps.solarize` does.

    Images are uint8 in 0..255 or float32 in 0..1; the dtype stays.
    """

    threshold: Annotated[int, Within(0, 256)] = 128
    """Threshold in levels of uint8, from 0 (a plain negative) to 256 (no change); for float32 it is threshold / 255."""

    pointwise: ClassVar[bool] = True


@register("posterize")
class Posterize(FullRange):
    """Clears the lowest bits of each value, as Pillow's `ImageOps.posterize` does.

    Images are uint8 in 0..255, or float32 in 0..1, which is rounded to 256 levels first. The dtype stays.
    """

    bits: Annotated[int, Within(1, 8)] = 4
    """Number of bits that stay, from 1 to 8."""

    pointwise: ClassVar[bool] = True


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


@register("random_brightness")
class RandomBrightness(FullRange):
    """Adds one uniform number to all values of an image, as `tf.image.random_brightness` does, and clips.

    Images are uint8 in 0..255 or float32 in 0..1; the dtype stays.

    Draws `brightness`, the number that is added, as a fraction of the full range: float32 [batch].
    """

    random: ClassVar[bool] = True

    delta: Fraction = 0.2
    """Maximum that is added or subtracted, as a fraction of the full range: 0.2 is 51 levels of uint8. From 0 to 1."""

    is_line: ClassVar[bool] = True
    pointwise: ClassVar[bool] = True


@register("autocontrast")
class Autocontrast(FullRange):
    """Maps each channel's darkest value to 0 and its brightest to the full level; channels of one value stay.

    Images are uint8 in 0..255 or float32 in 0..1; the dtype stays. Results equal Pillow's
    `ImageOps.autocontrast`, except that uint8 results are rounded and not truncated.
    """

    is_line: ClassVar[bool] = True
    measures: ClassVar[bool] = True


@register("random_contrast")
class RandomContrast(FullRange):
    """Computes factor * (x - mean) + mean for each channel, as `tf.image.random_contrast` does, and clips it.

    Images are uint8 in 0..255 or float32 in 0..1; the dtype stays. `color_jitter` takes one mean for all channels.

    Draws `contrast`, the factor: float32 [batch].
    """

    random: ClassVar[bool] = True
    is_line: ClassVar[bool] = True
    measures: ClassVar[bool] = True

    lower: PositiveOrZero = 0.5
    """Smallest factor; 0 gives plain grey, 1 changes nothing. From 0."""
    upper: PositiveOrZero = 1.5
    """Largest factor. From `lower`."""

    ordered: ClassVar[tuple[tuple[str, str], ...]] = (("lower", "upper"),)


@register("equalize")
class Equalize(FullRange):
    """Equalises the histogram of each channel of each image, bit for bit as Pillow's `ImageOps.equalize`.

    Images are uint8 in 0..255, or float32 in 0..1, which is rounded to 256 levels first. The dtype stays.
    """


@register("gaussian_noise")
class GaussianNoise(FullRange):
    """Adds normal noise of mean 0 to each value of each image, and clips it.

    Images are uint8 in 0..255 or float32 in 0..1; the dtype stays.

    Draws `noise`, uint64 [batch], from which all noise of an image derives. Box-Muller takes 16 bits each for radius
    and angle, so one 64-bit word gives four numbers, none beyond 4.9.
    """

    random: ClassVar[bool] = True

    stddev: PositiveOrZero = 0.05
    """Standard deviation, as a fraction of the full range: 0.05 is 12.75 levels of uint8. From 0."""
