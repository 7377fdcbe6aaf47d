"""Paints over a square of each image."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import tensorflow as tf

from tfhet.stages import randomness
from tfhet.stages.random_erasing import paintable, painted
from tfhet.stages.registry import register
from tfhet.stages.spec import ImageSpec
from tfhet.stages.stage import Stage


@register("cutout")
@dataclass(frozen=True)
class Cutout(Stage):
    """Paints over a square of each image, whose centre is any pixel (DeVries and Taylor, arXiv:1708.04552).

    The square is cut at the edges, as by the `cutout` of Addons; its `random_cutout` keeps the whole square inside.
    Images are uint8 or float32 of any range; the dtype stays.
    """

    size: int = 8
    """Side of the square in pixels, from 1; for an even size the centre is the pixel right of and below the middle."""
    value: float = 0.0
    """Value that is painted, within the range of the images; a whole number for uint8."""

    random: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.size < 1:
            self.refuse(f"size is at least 1, not {self.size}")

    def spec(self, spec: ImageSpec) -> ImageSpec:
        return paintable(self, self.value, spec)

    def parameters(self, keys: tf.Tensor, spec: ImageSpec) -> dict[str, tf.Tensor]:
        """Returns `centre_y`, `centre_x`: float32 [batch], fractions of height and width, from 0 to below 1."""
        return {"centre_y": randomness.uniform(keys, 0), "centre_x": randomness.uniform(keys, 1)}

    def apply(self, images: tf.Tensor, parameters: Mapping[str, tf.Tensor]) -> tf.Tensor:
        top = self._first(parameters["centre_y"], tf.shape(images)[1])
        left = self._first(parameters["centre_x"], tf.shape(images)[2])
        return painted(images, top, top + float(self.size), left, left + float(self.size), self.value)

    def _first(self, centres: tf.Tensor, length: tf.Tensor) -> tf.Tensor:
        pixels = tf.cast(length, tf.float32)
        # The product may round up to the length itself, which is one too far.
        return tf.minimum(tf.floor(centres * pixels), pixels - 1.0) - float(self.size // 2)
