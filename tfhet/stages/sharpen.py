"""Sharpens or softens edges."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import tensorflow as tf

from tfhet import native
from tfhet.stages import levels
from tfhet.stages.registry import register
from tfhet.stages.spec import ImageSpec
from tfhet.stages.stage import Stage


@register("sharpen")
@dataclass(frozen=True)
class Sharpen(Stage):
    """Computes amount * x + (1 - amount) * smooth(x) and clips it, as Pillow's `ImageEnhance.Sharpness` and Addons do.

    smooth(x) is the mean of 3x3 pixels with the centre counted five times; the outermost pixels stay unchanged. Images
    are uint8 in 0..255 or float32 in 0..1; the dtype stays. uint8 results are rounded once, where Pillow and Addons
    also round smooth(x).
    """

    amount: float = 2.0
    """Weight of the image: 0 is smooth, 1 changes nothing, 2 is sharp. From 0."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (self.amount >= 0.0 and math.isfinite(self.amount)):
            self.refuse(f"amount is from 0, not {self.amount}")

    def spec(self, spec: ImageSpec) -> ImageSpec:
        for length in (spec.height, spec.width):
            if length is not None and length < 2:
                self.refuse(f"needs images of at least 2 pixels each way, not {length}")
        return levels.full_range(self, spec)

    def apply(self, images: tf.Tensor, parameters: Mapping[str, tf.Tensor]) -> tf.Tensor:
        return sharpened(images, tf.constant([self.amount]))


def sharpened(images: tf.Tensor, amounts: tf.Tensor) -> tf.Tensor:
    """Sharpens each image by its own amount.

    images: uint8 in 0..255 or float32 in 0..1, [batch, H, W, C]. amounts: float32 [batch], or [1] for all images.
    """
    softenings = (1.0 - amounts) / 13.0
    compiled = native.ops("filters")
    if compiled is None:
        return _plain(images, softenings)
    result = compiled.tfhet_sharpen(images, softenings)
    result.set_shape(images.shape)
    return result


def _plain(images: tf.Tensor, softenings: tf.Tensor) -> tf.Tensor:
    # In lines of width * channels: over pixels of 3 values each, everything takes longer.
    shape, channels = tf.shape(images), images.shape[3]
    lines = tf.cast(tf.reshape(images, [shape[0], shape[1], shape[2] * channels]), tf.float32)
    rows = lines[:, :-2] + lines[:, 1:-1] + lines[:, 2:]
    box = rows[:, :, : -2 * channels] + rows[:, :, channels:-channels] + rows[:, :, 2 * channels :]
    # smooth(x) - x = (box + 4 x) / 13 - x, on all pixels but the outermost.
    softer = (box - 9.0 * lines[:, 1:-1, channels:-channels]) * softenings[:, tf.newaxis, tf.newaxis]
    result = levels.restored(lines + tf.pad(softer, [[0, 0], [1, 1], [channels, channels]]), images.dtype)
    result = tf.reshape(result, shape)
    result.set_shape(images.shape)
    return result
