"""Rotates each image about its centre."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import tensorflow as tf

from tfhet.stages import projection, randomness
from tfhet.stages.geometric import Geometric
from tfhet.stages.registry import register
from tfhet.stages.spec import ImageSpec


@register("random_rotation")
@dataclass(frozen=True)
class RandomRotation(Geometric):
    """Rotates by a uniform angle, bilinear and reflected at the edges, as the Keras layer RandomRotation does."""

    factor: float = 0.1
    """Maximum angle either way, in turns: 0.1 is 36 degrees. From 0 to 1."""

    random: ClassVar[bool] = True
    commutes_with_rescale: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 <= self.factor <= 1.0:
            self.refuse(f"factor is in turns, from 0 to 1, not {self.factor}")

    def parameters(self, keys: tf.Tensor, spec: ImageSpec) -> dict[str, tf.Tensor]:
        """Returns `angle` in radians, positive counter-clockwise: float32 [batch]."""
        most = self.factor * 2.0 * math.pi
        return {"angle": randomness.uniform(keys, 0, -most, most)}

    @property
    def fill(self) -> tuple[str, float]:
        return "reflect", 0.0

    def transforms(self, parameters: Mapping[str, tf.Tensor], height: tf.Tensor, width: tf.Tensor) -> tf.Tensor:
        return projection.rotation(parameters["angle"], height, width)
