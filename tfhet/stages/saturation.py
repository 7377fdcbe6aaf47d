"""Stages that take colour away or add to it: grayscale and random_saturation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import tensorflow as tf

from tfhet import native
from tfhet.stages import levels, randomness
from tfhet.stages.colour import most_and_least
from tfhet.stages.levels import FullRange
from tfhet.stages.registry import register
from tfhet.stages.spec import ImageSpec
from tfhet.stages.stage import PositiveOrZero, Stage


@register("grayscale")
@dataclass(frozen=True)
class Grayscale(Stage):
    """Computes 0.299 red + 0.587 green + 0.114 blue (ITU-R 601-2), for uint8 bit for bit as Pillow's `convert("L")`.

    Images may have any range; the dtype stays. The weights of `tf.image.rgb_to_grayscale` sum to 0.9999.
    """

    channels: int = 1
    """Channels of the result: 1, or 3 equal ones."""

    keeps_shape: ClassVar[bool] = False
    commutes_with_rescale: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.channels not in (1, 3):
            self.refuse(f"channels is 1 or 3, not {self.channels}")

    def spec(self, spec: ImageSpec) -> ImageSpec:
        return replace(levels.grey_or_rgb(self, spec), channels=self.channels)

    def apply(self, images: tf.Tensor, parameters: Mapping[str, tf.Tensor]) -> tf.Tensor:
        if images.shape[3] == 1:
            return images if self.channels == 1 else tf.tile(images, [1, 1, 1, 3])
        ops = native.ops("colour")
        if ops is not None:
            return native.shaped(ops.tfhet_grey(images, channels=self.channels), [*images.shape[:3], self.channels])
        weights = tf.constant([[weight] * self.channels for weight in levels.LUMA])
        if images.dtype.is_floating:
            return tf.tensordot(images, weights / 65536.0, 1)
        sums = tf.tensordot(tf.cast(images, tf.float32), weights, 1)
        return tf.cast((sums + 32768.0) * (1.0 / 65536.0), images.dtype)


@register("random_saturation")
@dataclass(frozen=True)
class RandomSaturation(FullRange):
    """Multiplies the saturation of HSV by a uniform factor, up to 1, as `tf.image.random_saturation` does.

    Images are uint8 in 0..255 or float32 in 0..1; the dtype stays. Images of one channel stay unchanged. `color_jitter`
    blends with the grey image instead.
    """

    lower: PositiveOrZero = 0.5
    """Smallest factor; 0 removes all colour, 1 changes nothing. From 0."""
    upper: PositiveOrZero = 1.5
    """Largest factor. From `lower`."""

    random: ClassVar[bool] = True
    of_colours: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.lower > self.upper:
            self.refuse(f"lower is at most upper, not {self.lower}, {self.upper}")

    def parameters(self, keys: tf.Tensor, spec: ImageSpec) -> dict[str, tf.Tensor]:
        """Returns `saturation`, the factor: float32 [batch]."""
        return {"saturation": randomness.uniform(keys, 0, self.lower, self.upper)}

    def apply(self, images: tf.Tensor, parameters: Mapping[str, tf.Tensor]) -> tf.Tensor:
        if images.shape[3] == 1:
            return images
        ops, factors = native.ops("colour"), parameters["saturation"]
        if ops is not None:
            return native.shaped(ops.tfhet_saturation(images, factors), images.shape)
        # The hue is not needed: saturation is (max - min) / max, so each value's distance from max grows by the factor,
        # at most to where the smallest value is 0. By whole planes: 3 ns a value or less instead of tf.image's 6.9.
        planes = tf.transpose(tf.cast(images, tf.float32), [3, 0, 1, 2])
        most, least = most_and_least(planes)
        factor = tf.minimum(factors[:, tf.newaxis, tf.newaxis], most / tf.maximum(most - least, 1e-9))
        coloured = tf.transpose(most - (most - planes) * factor, [1, 2, 3, 0])
        return levels.restored(coloured, images.dtype)
