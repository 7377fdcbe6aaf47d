"""Sharpens or softens edges."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import tensorflow as tf

from tfhet import native
from tfhet.stages import levels
from tfhet.stages.levels import FullRange
from tfhet.stages.registry import register
from tfhet.stages.stage import PositiveOrZero


@register("sharpen")
@dataclass(frozen=True)
class Sharpen(FullRange):
    """Computes amount * x + (1 - amount) * smooth(x) and clips it, as Pillow's `ImageEnhance.Sharpness` and Addons do.

    smooth(x) is the mean of 3x3 pixels with the centre counted five times; the outermost pixels stay unchanged. Images
    are uint8 in 0..255 or float32 in 0..1; the dtype stays. uint8 results are rounded once, where Pillow and Addons
    also round smooth(x).
    """

    amount: PositiveOrZero = 2.0
    """Weight of the image: 0 is smooth, 1 changes nothing, 2 is sharp. From 0."""

    shortest: ClassVar[int] = 2

    def apply(self, images: tf.Tensor, parameters: Mapping[str, tf.Tensor]) -> tf.Tensor:
        return sharpened(images, tf.constant([self.amount]))


def sharpened(images: tf.Tensor, amounts: tf.Tensor) -> tf.Tensor:
    """Sharpens each image by its own amount.

    images: uint8 in 0..255 or float32 in 0..1, [batch, H, W, C]. amounts: float32 [batch], or [1] for all images.
    """
    softenings = (1.0 - amounts) / 13.0
    ops = native.ops("filters")
    if ops is not None:
        return native.shaped(ops.tfhet_sharpen(images, softenings), images.shape)
    # In lines of width * channels: over pixels of 3 values each, everything takes longer.
    shape, channels = tf.shape(images), images.shape[3]
    lines = tf.cast(tf.reshape(images, [shape[0], shape[1], shape[2] * channels]), tf.float32)
    rows = lines[:, :-2] + lines[:, 1:-1] + lines[:, 2:]
    box = rows[:, :, : -2 * channels] + rows[:, :, channels:-channels] + rows[:, :, 2 * channels :]
    # smooth(x) - x = (box + 4 x) / 13 - x, on all pixels but the outermost.
    softer = (box - 9.0 * lines[:, 1:-1, channels:-channels]) * softenings[:, tf.newaxis, tf.newaxis]
    result = levels.restored(lines + tf.pad(softer, [[0, 0], [1, 1], [channels, channels]]), images.dtype)
    return native.shaped(tf.reshape(result, shape), images.shape)
