"""Scales, shears, rotates and moves images at once, all alike or each differently: affine and random_affine."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, TypeAlias

import tensorflow as tf

from tfhet.stages import projection, randomness
from tfhet.stages.geometric import Filled, FillMode
from tfhet.stages.registry import register
from tfhet.stages.spec import ImageSpec
from tfhet.stages.stage import Finite, Fraction, Positive, Within

Offset: TypeAlias = Annotated[float, Within(-1, 1)]


@register("affine")
@dataclass(frozen=True)
class Affine(Filled):
    """Scales, shears and rotates about the centre, then moves, in one bilinear sampling: torchvision's order."""

    degrees: Finite = 0.0
    """Angle in degrees; positive is counter-clockwise."""
    down: Offset = 0.0
    """Distance by which the content moves down, as a fraction of the height. From -1 to 1."""
    right: Offset = 0.0
    """Distance by which the content moves to the right, as a fraction of the width. From -1 to 1."""
    scale: Positive = 1.0
    """Factor; above 1 enlarges the content. Positive."""
    shear: Offset = 0.0
    """Slope in columns per row, as in `random_shear`. From -1 to 1."""
    fill_mode: FillMode = "reflect"
    fill_value: float = 0.0

    def transforms(self, parameters: Mapping[str, tf.Tensor], height: tf.Tensor, width: tf.Tensor) -> tf.Tensor:
        numbers = math.radians(self.degrees), self.down, self.right, self.scale, self.shear
        return projection.affine(height, width, *(tf.constant([number]) for number in numbers))


@register("random_affine")
@dataclass(frozen=True)
class RandomAffine(Filled):
    """Applies `affine` with uniform values: torchvision's RandomAffine, but bilinear and with shear as a slope."""

    degrees: Annotated[float, Within(0, 360)] = 10.0
    """Maximum angle either way, in degrees. From 0 to 360."""
    height_factor: Fraction = 0.1
    """Maximum distance up or down, as a fraction of the height. From 0 to 1."""
    width_factor: Fraction = 0.1
    """Maximum distance left or right, as a fraction of the width. From 0 to 1."""
    scale_low: Positive = 0.9
    """Minimum enlargement. Positive."""
    scale_high: Positive = 1.1
    """Maximum enlargement. From scale_low."""
    shear: Fraction = 0.1
    """Maximum slope either way, in columns per row. From 0 to 1."""
    fill_mode: FillMode = "reflect"
    fill_value: float = 0.0

    random: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.scale_low > self.scale_high:
            self.refuse(f"scale_low is at most scale_high, not {self.scale_low}, {self.scale_high}")

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
        drawn = (parameters[name] for name in ("angle", "down", "right", "scale", "shear"))
        return projection.affine(height, width, *drawn)
