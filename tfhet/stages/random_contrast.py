"""Moves the values of each image away from their mean, or towards it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import tensorflow as tf

from tfhet.stages import levels, randomness
from tfhet.stages.registry import register
from tfhet.stages.spec import ImageSpec
from tfhet.stages.stage import Stage


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
        mean = levels.over_pixels(tf.reduce_mean, tf.cast(images, tf.float32))
        factor = levels.per_image(parameters["contrast"])
        return levels.affine(images, factor, mean * (1.0 - factor))
