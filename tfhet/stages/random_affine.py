"""Scales, shears, rotates and moves each image differently, in one sampling."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import tensorflow as tf

from tfhet.stages import projection, randomness
from tfhet.stages.geometric import Filled
from tfhet.stages.registry import register
from tfhet.stages.spec import ImageSpec


@register("random_affine")
@dataclass(frozen=True)
class RandomAffine(Filled):
    """Applies `affine` with uniform values: torchvision's RandomAffine, but bilinear and with shear as a slope."""

    degrees: float = 10.0
    """Maximum angle either way, in degrees. From 0 to 360."""
    height_factor: float = 0.1
    """Maximum distance up or down, as a fraction of the height. From 0 to 1."""
    width_factor: float = 0.1
    """Maximum distance left or right, as a fraction of the width. From 0 to 1."""
    scale_low: float = 0.9
    """Minimum enlargement. Positive."""
    scale_high: float = 1.1
    """Maximum enlargement. From scale_low."""
    shear: float = 0.1
    """Maximum slope either way, in columns per row. From 0 to 1."""
    fill_mode: str = "reflect"
    """Fill beyond the edge: constant, nearest, reflect or wrap."""
    fill_value: float = 0.0
    """Value of `constant`, within the range of the images."""

    random: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 <= self.degrees <= 360.0:
            self.refuse(f"degrees is from 0 to 360, not {self.degrees}")
        fractions = (self.height_factor, self.width_factor, self.shear)
        if not all(0.0 <= value <= 1.0 for value in fractions):
            self.refuse("height_factor, width_factor and shear are from 0 to 1, not {}, {}, {}".format(*fractions))
        if not 0.0 < self.scale_low <= self.scale_high < math.inf:
            self.refuse(f"scale_low is positive and at most scale_high, not {self.scale_low}, {self.scale_high}")

    def parameters(self, keys: tf.Tensor, spec: ImageSpec) -> dict[str, tf.Tensor]:
        """Returns `angle`, `down`, `right`, `scale` and `shear`, each float32 [batch].

        They are in radians (positive is counter-clockwise), fractions of height and width by which the content moves,
        a factor (above 1 enlarges) and columns per row.
        """
        most = math.radians(self.degrees)
        return {
            "angle": randomness.uniform(keys, 0, -most, most),
            "down": randomness.uniform(keys, 1, -self.height_factor, self.height_factor),
            "right": randomness.uniform(keys, 2, -self.width_factor, self.width_factor),
            "scale": randomness.uniform(keys, 3, self.scale_low, self.scale_high),
            "shear": randomness.uniform(keys, 4, -self.shear, self.shear),
        }

    def transforms(self, parameters: Mapping[str, tf.Tensor], height: tf.Tensor, width: tf.Tensor) -> tf.Tensor:
        return projection.affine(
            parameters["angle"],
            parameters["down"],
            parameters["right"],
            parameters["scale"],
            parameters["shear"],
            height,
            width,
        )
