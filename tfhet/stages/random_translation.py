"""Moves each image up or down and left or right."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import tensorflow as tf

from tfhet.stages import projection, randomness
from tfhet.stages.geometric import Filled
from tfhet.stages.registry import register
from tfhet.stages.spec import ImageSpec


@register("random_translation")
@dataclass(frozen=True)
class RandomTranslation(Filled):
    """Moves by uniform fractions of the size, bilinear, as the Keras layer RandomTranslation does."""

    height_factor: float = 0.1
    """Maximum distance up or down, as a fraction of the height. From 0 to 1."""
    width_factor: float = 0.1
    """Maximum distance left or right, as a fraction of the width. From 0 to 1."""
    fill_mode: str = "reflect"
    """Fill beyond the edge: constant, nearest, reflect or wrap."""
    fill_value: float = 0.0
    """Value of `constant`, within the range of the images."""

    random: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        factors = self.height_factor, self.width_factor
        if not all(0.0 <= factor <= 1.0 for factor in factors):
            self.refuse("height_factor and width_factor are from 0 to 1, not {}, {}".format(*factors))

    def parameters(self, keys: tf.Tensor, spec: ImageSpec) -> dict[str, tf.Tensor]:
        """Returns `down` and `right`, fractions of height and width by which the content moves: float32 [batch]."""
        return {
            "down": randomness.uniform(keys, 0, -self.height_factor, self.height_factor),
            "right": randomness.uniform(keys, 1, -self.width_factor, self.width_factor),
        }

    def transforms(self, parameters: Mapping[str, tf.Tensor], height: tf.Tensor, width: tf.Tensor) -> tf.Tensor:
        down = parameters["down"] * tf.cast(height, tf.float32)
        return projection.translation(down, parameters["right"] * tf.cast(width, tf.float32))
