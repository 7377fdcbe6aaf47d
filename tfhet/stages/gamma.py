"""Raises each value to a power."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import tensorflow as tf

from tfhet import native
from tfhet.stages import levels
from tfhet.stages.registry import register
from tfhet.stages.spec import ImageSpec
from tfhet.stages.stage import Stage
from tfhet.stages.table import lookup


@register("gamma")
@dataclass(frozen=True)
class Gamma(Stage):
    """Computes gain * x**gamma, with 1 as the brightest level, and clips it, as `tf.image.adjust_gamma` does.

    Images are uint8 in 0..255 (by a table of 256 values) or float32 in 0..1; the dtype stays.
    """

    gamma: float = 1.0
    """Exponent; below 1 lightens, above 1 darkens. Positive."""
    gain: float = 1.0
    """Factor; positive."""

    pointwise: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not all(value > 0.0 and math.isfinite(value) for value in (self.gamma, self.gain)):
            self.refuse(f"gamma and gain are positive and finite, not {self.gamma}, {self.gain}")

    def spec(self, spec: ImageSpec) -> ImageSpec:
        return levels.full_range(self, spec)

    def apply(self, images: tf.Tensor, parameters: Mapping[str, tf.Tensor]) -> tf.Tensor:
        if images.dtype.is_floating:
            ops = native.ops("power")
            if ops is not None:
                result = ops.tfhet_power(images, gamma=self.gamma, gain=self.gain)
                result.set_shape(images.shape)
                return result
            # log(0) is -inf, and its exponential 0 again. tf.pow takes five times as long.
            return tf.minimum(tf.exp(tf.math.log(images) * self.gamma) * self.gain, 1.0)
        return lookup(images, tf.constant(self.table()[np.newaxis, :, np.newaxis]))

    def table(self) -> np.ndarray:
        """Returns the new value of each level, rounded: uint8 [256]."""
        exact = self.gain * (np.arange(256) / 255.0) ** self.gamma * 255.0
        return np.minimum(np.floor(exact + 0.5), 255.0).astype(np.uint8)
