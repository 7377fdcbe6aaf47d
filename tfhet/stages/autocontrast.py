"""Stretches each image to the full range."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import tensorflow as tf

from tfhet import native
from tfhet.stages import levels
from tfhet.stages.line import Line, apply_line
from tfhet.stages.registry import register
from tfhet.stages.spec import ImageSpec
from tfhet.stages.stage import Stage
from tfhet.stages.statistics import Statistics


@register("autocontrast")
@dataclass(frozen=True)
class Autocontrast(Stage):
    """Maps each channel's darkest value to 0 and its brightest to the full level; channels of one value stay.

    Images are uint8 in 0..255 or float32 in 0..1; the dtype stays. Results are those of Pillow's
    `ImageOps.autocontrast`, except that uint8 results are rounded and not truncated.
    """

    measures: ClassVar[bool] = True

    def spec(self, spec: ImageSpec) -> ImageSpec:
        return levels.full_range(self, spec)

    def apply(self, images: tf.Tensor, parameters: Mapping[str, tf.Tensor]) -> tf.Tensor:
        ops = native.ops("tone")
        if ops is None:
            return apply_line(images, self._line(self.measured(images), images.dtype.name), images.dtype)
        result = ops.tfhet_contrast(images, tf.zeros([0]))
        result.set_shape(images.shape)
        return result

    def measured(self, images: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns `low` and `high`, the darkest and the brightest value: float32 [batch, channels]."""
        found = Statistics.of(images)
        return {"low": found.low, "high": found.high}

    def line(self, parameters: Mapping[str, tf.Tensor], spec: ImageSpec) -> Line:
        return self._line(parameters, spec.dtype)

    def _line(self, parameters: Mapping[str, tf.Tensor], dtype: str) -> Line:
        low, high, full = parameters["low"], parameters["high"], levels.FULL[dtype]
        plain = high <= low
        scale = tf.where(plain, 1.0, full / tf.where(plain, 1.0, high - low))
        return Line.of(scale, tf.where(plain, 0.0, -low * scale), 0.0, full)
