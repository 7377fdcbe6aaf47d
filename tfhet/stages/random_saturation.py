"""Raises or lowers the saturation of each image."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import tensorflow as tf

from tfhet import native
from tfhet.stages import levels, randomness
from tfhet.stages.registry import register
from tfhet.stages.spec import ImageSpec
from tfhet.stages.stage import Stage


@register("random_saturation")
@dataclass(frozen=True)
class RandomSaturation(Stage):
    """Multiplies the saturation of HSV by a uniform factor, up to 1, as `tf.image.random_saturation` does.

    Images are uint8 in 0..255 or float32 in 0..1; the dtype stays. Images of one channel stay unchanged. `color_jitter`
    blends with the grey image instead.
    """

    lower: float = 0.5
    """Smallest factor; 0 removes all colour, 1 changes nothing. From 0."""
    upper: float = 1.5
    """Largest factor. From `lower`."""

    random: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 <= self.lower <= self.upper < float("inf"):
            self.refuse(f"factors are from 0, lower <= upper; not {self.lower}, {self.upper}")

    def spec(self, spec: ImageSpec) -> ImageSpec:
        return levels.grey_or_rgb(self, levels.full_range(self, spec))

    def parameters(self, keys: tf.Tensor, spec: ImageSpec) -> dict[str, tf.Tensor]:
        """Returns `saturation`, the factor: float32 [batch]."""
        return {"saturation": randomness.uniform(keys, 0, self.lower, self.upper)}

    def apply(self, images: tf.Tensor, parameters: Mapping[str, tf.Tensor]) -> tf.Tensor:
        if images.shape[3] == 1:
            return images
        ops = native.ops("colour")
        if ops is None:
            return self._plain(images, parameters["saturation"])
        result = ops.tfhet_saturation(images, parameters["saturation"])
        result.set_shape(images.shape)
        return result

    def _plain(self, images: tf.Tensor, factors: tf.Tensor) -> tf.Tensor:
        # The hue is not needed: saturation is (max - min) / max, so each value's distance from max grows by the factor,
        # at most to where the smallest value is 0. By whole planes: 3 ns a value or less instead of tf.image's 6.9.
        planes = tf.transpose(tf.cast(images, tf.float32), [3, 0, 1, 2])
        red, green, blue = tf.unstack(planes)
        most = tf.maximum(tf.maximum(red, green), blue)
        spread = most - tf.minimum(tf.minimum(red, green), blue)
        factor = factors[:, tf.newaxis, tf.newaxis]
        factor = tf.minimum(factor, most / tf.maximum(spread, 1e-9))
        coloured = tf.transpose(most - (most - planes) * factor, [1, 2, 3, 0])
        return levels.restored(coloured, images.dtype)
