"""Moves the values of each image away from their mean, or towards it."""

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
    """x -> factor * (x - mean) + mean, each channel about its own mean, as `tf.image.random_contrast`; clipped.

    uint8 in 0..255 or float32 in 0..1; the dtype stays. (Contrast in `color_jitter` has one mean for the three.)
    """

    lower: float = 0.5
    """The smallest factor; 0 is plain grey, 1 changes nothing. From 0."""
    upper: float = 1.5
    """The largest factor; from `lower`."""

    random: ClassVar[bool] = True
    measures: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 <= self.lower <= self.upper < float("inf"):
            self.refuse(f"factors are from 0, lower <= upper; not {self.lower}, {self.upper}")

    def spec(self, spec: ImageSpec) -> ImageSpec:
        return levels.full_range(self, spec)

    def parameters(self, keys: tf.Tensor, spec: ImageSpec) -> dict[str, tf.Tensor]:
        """`contrast`: float32 [batch], the factor."""
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
        """`mean`: float32 [batch, channels]."""
        return {"mean": Statistics.of(images).mean}

    def line(self, parameters: Mapping[str, tf.Tensor], spec: ImageSpec) -> Line:
        return self._line(parameters, spec.dtype)

    def _line(self, parameters: Mapping[str, tf.Tensor], dtype: str) -> Line:
        factor = parameters["contrast"][:, tf.newaxis]
        return Line.of(factor, parameters["mean"] * (1.0 - factor), 0.0, levels.FULL[dtype])
