"""Raises or lowers the contrast of each image."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import tensorflow as tf

from tfhet import native
from tfhet.stages import levels, randomness
from tfhet.stages.line import Line, apply_line
from tfhet.stages.registry import register
from tfhet.stages.spec import ImageSpec
from tfhet.stages.stage import Stage
from tfhet.stages.statistics import Statistics


@register("random_contrast")
@dataclass(frozen=True)
class RandomContrast(Stage):
    """Computes factor * (x - mean) + mean for each channel, as `tf.image.random_contrast` does, and clips it.

    Images are uint8 in 0..255 or float32 in 0..1; the dtype stays. `color_jitter` takes one mean for all channels.
    """

    lower: float = 0.5
    """Smallest factor; 0 gives plain grey, 1 changes nothing. From 0."""
    upper: float = 1.5
    """Largest factor. From `lower`."""

    random: ClassVar[bool] = True
    measures: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 <= self.lower <= self.upper < float("inf"):
            self.refuse(f"factors are from 0, lower <= upper; not {self.lower}, {self.upper}")

    def spec(self, spec: ImageSpec) -> ImageSpec:
        return levels.full_range(self, spec)

    def parameters(self, keys: tf.Tensor, spec: ImageSpec) -> dict[str, tf.Tensor]:
        """Returns `contrast`, the factor: float32 [batch]."""
        return {"contrast": randomness.uniform(keys, 0, self.lower, self.upper)}

    def apply(self, images: tf.Tensor, parameters: Mapping[str, tf.Tensor]) -> tf.Tensor:
        ops = native.ops("tone")
        if ops is None:
            line = self._line({**parameters, **self.measured(images)}, images.dtype.name)
            return apply_line(images, line, images.dtype)
        result = ops.tfhet_contrast(images, parameters["contrast"])
        result.set_shape(images.shape)
        return result

    def measured(self, images: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns `mean`: float32 [batch, channels]."""
        return {"mean": Statistics.of(images).mean}

    def line(self, parameters: Mapping[str, tf.Tensor], spec: ImageSpec) -> Line:
        return self._line(parameters, spec.dtype)

    def _line(self, parameters: Mapping[str, tf.Tensor], dtype: str) -> Line:
        factor = parameters["contrast"][:, tf.newaxis]
        return Line.of(factor, parameters["mean"] * (1.0 - factor), 0.0, levels.FULL[dtype])
