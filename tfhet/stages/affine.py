"""Enlarges, shears, rotates and moves all images alike."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import tensorflow as tf

from tfhet.stages import projection
from tfhet.stages.geometric import Filled
from tfhet.stages.registry import register


@register("affine")
@dataclass(frozen=True)
class Affine(Filled):
    """Scales, shears and rotates about the centre, then moves, in one bilinear sampling: torchvision's order."""

    degrees: float = 0.0
    """Angle in degrees; positive is counter-clockwise."""
    down: float = 0.0
    """Distance by which the content moves down, as a fraction of the height. From -1 to 1."""
    right: float = 0.0
    """Distance by which the content moves to the right, as a fraction of the width. From -1 to 1."""
    scale: float = 1.0
    """Factor; above 1 enlarges the content. Positive."""
    shear: float = 0.0
    """Slope in columns per row, as in `random_shear`. From -1 to 1."""
    fill_mode: str = "reflect"
    """Fill beyond the edge: constant, nearest, reflect or wrap."""
    fill_value: float = 0.0
    """Value of `constant`, within the range of the images."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (math.isfinite(self.degrees) and 0.0 < self.scale < math.inf):
            self.refuse(f"degrees is finite, scale finite and positive, not {self.degrees}, {self.scale}")
        if not all(-1.0 <= value <= 1.0 for value in (self.down, self.right, self.shear)):
            self.refuse(f"down, right and shear are from -1 to 1, not {self.down}, {self.right}, {self.shear}")

    def transforms(self, parameters: Mapping[str, tf.Tensor], height: tf.Tensor, width: tf.Tensor) -> tf.Tensor:
        return projection.affine(
            tf.constant([math.radians(self.degrees)]),
            tf.constant([self.down]),
            tf.constant([self.right]),
            tf.constant([self.scale]),
            tf.constant([self.shear]),
            height,
            width,
        )
