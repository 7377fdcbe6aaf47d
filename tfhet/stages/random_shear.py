"""Shears each image: rows move sideways in proportion to their distance from the middle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import tensorflow as tf

from tfhet.stages import projection, randomness
from tfhet.stages.geometric import Filled
from tfhet.stages.registry import register
from tfhet.stages.spec import ImageSpec


@register("random_shear")
@dataclass(frozen=True)
class RandomShear(Filled):
    """Shears by a uniform slope, bilinear: Addons' `shear_x` of a random level, about the centre instead of the top."""

    factor: float = 0.1
    """Maximum slope either way, in columns per row: 0.1 is an angle of atan(0.1) = 5.7 degrees. From 0 to 1."""
    fill_mode: str = "reflect"
    """Fill beyond the edge: constant, nearest, reflect or wrap."""
    fill_value: float = 0.0
    """Value of `constant`, within the range of the images."""

    random: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 <= self.factor <= 1.0:
            self.refuse(f"factor is in columns per row, from 0 to 1, not {self.factor}")

    def parameters(self, keys: tf.Tensor, spec: ImageSpec) -> dict[str, tf.Tensor]:
        """Returns `shear` in columns per row, positive moves the lower half to the left: float32 [batch]."""
        return {"shear": randomness.uniform(keys, 0, -self.factor, self.factor)}

    def transforms(self, parameters: Mapping[str, tf.Tensor], height: tf.Tensor, width: tf.Tensor) -> tf.Tensor:
        return projection.shearing(parameters["shear"], height)
