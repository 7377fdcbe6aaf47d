"""Stages that do one motion of images at random: random_shear, random_translation, random_rotation, random_zoom."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

import tensorflow as tf

from tfhet.stages import projection, randomness
from tfhet.stages.geometric import Filled, FillMode, Geometric
from tfhet.stages.registry import register
from tfhet.stages.spec import ImageSpec
from tfhet.stages.stage import Fraction, Within


@register("random_shear")
@dataclass(frozen=True)
class RandomShear(Filled):
    """Shears by a uniform slope, bilinear: Addons' `shear_x` of a random level, about the centre instead of the top."""

    factor: Fraction = 0.1
    """Maximum slope either way, in columns per row: 0.1 is an angle of atan(0.1) = 5.7 degrees. From 0 to 1."""
    fill_mode: FillMode = "reflect"
    fill_value: float = 0.0

    random: ClassVar[bool] = True

    def parameters(self, keys: tf.Tensor, spec: ImageSpec) -> dict[str, tf.Tensor]:
        """Returns `shear` in columns per row, positive moves the lower half to the left: float32 [batch]."""
        return {"shear": randomness.uniform(keys, 0, -self.factor, self.factor)}

    def transforms(self, parameters: Mapping[str, tf.Tensor], height: tf.Tensor, width: tf.Tensor) -> tf.Tensor:
        return projection.shearing(parameters["shear"], height)


@register("random_translation")
@dataclass(frozen=True)
class RandomTranslation(Filled):
    """Moves by uniform fractions of the size, bilinear, as the Keras layer RandomTranslation does."""

    height_factor: Fraction = 0.1
    """Maximum distance up or down, as a fraction of the height. From 0 to 1."""
    width_factor: Fraction = 0.1
    """Maximum distance left or right, as a fraction of the width. From 0 to 1."""
    fill_mode: FillMode = "reflect"
    fill_value: float = 0.0

    random: ClassVar[bool] = True

    def parameters(self, keys: tf.Tensor, spec: ImageSpec) -> dict[str, tf.Tensor]:
        """Returns `down` and `right`, fractions of height and width by which the content moves: float32 [batch]."""
        return {
            "down": randomness.uniform(keys, 0, -self.height_factor, self.height_factor),
            "right": randomness.uniform(keys, 1, -self.width_factor, self.width_factor),
        }

    def transforms(self, parameters: Mapping[str, tf.Tensor], height: tf.Tensor, width: tf.Tensor) -> tf.Tensor:
        down = parameters["down"] * tf.cast(height, tf.float32)
        return projection.translation(down, parameters["right"] * tf.cast(width, tf.float32))


class _Reflected(Geometric):
    """A random stage that mirrors the image at its edges."""

    random: ClassVar[bool] = True
    commutes_with_rescale: ClassVar[bool] = True

    @property
    def fill(self) -> tuple[str, float]:
        return "reflect", 0.0


@register("random_rotation")
@dataclass(frozen=True)
class RandomRotation(_Reflected):
    """Rotates by a uniform angle, bilinear and reflected at the edges, as the Keras layer RandomRotation does."""

    factor: Fraction = 0.1
    """Maximum angle either way, in turns: 0.1 is 36 degrees. From 0 to 1."""

    def parameters(self, keys: tf.Tensor, spec: ImageSpec) -> dict[str, tf.Tensor]:
        """Returns `angle` in radians, positive counter-clockwise: float32 [batch]."""
        most = self.factor * 2.0 * math.pi
        return {"angle": randomness.uniform(keys, 0, -most, most)}

    def transforms(self, parameters: Mapping[str, tf.Tensor], height: tf.Tensor, width: tf.Tensor) -> tf.Tensor:
        return projection.rotation(parameters["angle"], height, width)


@register("random_zoom")
@dataclass(frozen=True)
class RandomZoom(_Reflected):
    """Zooms by a uniform factor, bilinear and reflected at the edges: the Keras layer RandomZoom, aspect kept."""

    factor: Annotated[float, Within(0, 1, below=True)] = 0.1
    """Range of the zoom: from 1 - factor (closer) to 1 + factor (farther). From 0 to below 1."""

    def parameters(self, keys: tf.Tensor, spec: ImageSpec) -> dict[str, tf.Tensor]:
        """Returns `zoom`, above 1 zooms out: float32 [batch]."""
        return {"zoom": randomness.uniform(keys, 0, 1.0 - self.factor, 1.0 + self.factor)}

    def transforms(self, parameters: Mapping[str, tf.Tensor], height: tf.Tensor, width: tf.Tensor) -> tf.Tensor:
        return projection.zooming(parameters["zoom"], height, width)
