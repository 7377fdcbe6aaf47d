"""Turns colours into grey."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import tensorflow as tf

from tfhet import native
from tfhet.stages import levels
from tfhet.stages.registry import register
from tfhet.stages.spec import ImageSpec
from tfhet.stages.stage import Stage


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
        if ops is None:
            return self._plain(images)
        grey = ops.tfhet_grey(images, channels=self.channels)
        grey.set_shape([*images.shape[:3], self.channels])
        return grey

    def _plain(self, images: tf.Tensor) -> tf.Tensor:
        weights = tf.constant([[weight] * self.channels for weight in levels.LUMA])
        if images.dtype.is_floating:
            return tf.tensordot(images, weights / 65536.0, 1)
        sums = tf.tensordot(tf.cast(images, tf.float32), weights, 1)
        return tf.cast((sums + 32768.0) * (1.0 / 65536.0), images.dtype)
