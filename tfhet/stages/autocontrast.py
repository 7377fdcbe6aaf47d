"""Stretches each image to the full range."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import tensorflow as tf

from tfhet.stages import levels
from tfhet.stages.registry import register
from tfhet.stages.spec import ImageSpec
from tfhet.stages.stage import Stage


@register("autocontrast")
@dataclass(frozen=True)
class Autocontrast(Stage):
    """Each channel's darkest value becomes 0 and its brightest the full level, linearly between; plain ones stay.

    uint8 in 0..255 or float32 in 0..1; the dtype stays. As Pillow's `ImageOps.autocontrast`, but uint8 results are
    rounded where Pillow cuts the fraction off.
    """

    def spec(self, spec: ImageSpec) -> ImageSpec:
        return levels.full_range(self, spec)

    def apply(self, images: tf.Tensor, parameters: Mapping[str, tf.Tensor]) -> tf.Tensor:
        values = tf.cast(images, tf.float32)
        low = levels.over_pixels(tf.reduce_min, values)
        high = levels.over_pixels(tf.reduce_max, values)
        plain = high <= low
        scale = tf.where(plain, 1.0, levels.FULL[images.dtype.name] / tf.where(plain, 1.0, high - low))
        return levels.affine(images, scale, tf.where(plain, 0.0, -low * scale))
