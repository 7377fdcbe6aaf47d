"""Shrinks or enlarges each image about its centre; its size in pixels stays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import tensorflow as tf

from tfhet.stages import projection, randomness
from tfhet.stages.geometric import Geometric
from tfhet.stages.registry import register
from tfhet.stages.spec import ImageSpec


@register("random_zoom")
@dataclass(frozen=True)
class RandomZoom(Geometric):
    """Zooms by a uniform factor, bilinear and reflected at the edges: the Keras layer RandomZoom, aspect kept."""

    factor: float = 0.1
    """Range of the zoom: from 1 - factor (closer) to 1 + factor (farther). From 0 to below 1."""

    random: ClassVar[bool] = True
    commutes_with_rescale: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 <= self.factor < 1.0:
            self.refuse(f"factor is from 0 and below 1, not {self.factor}")

    def parameters(self, keys: tf.Tensor, spec: ImageSpec) -> dict[str, tf.Tensor]:
        """Returns `zoom`, above 1 zooms out: float32 [batch]."""
        return {"zoom": randomness.uniform(keys, 0, 1.0 - self.factor, 1.0 + self.factor)}

    @property
    def fill(self) -> tuple[str, float]:
        return "reflect", 0.0

    def transforms(self, parameters: Mapping[str, tf.Tensor], height: tf.Tensor, width: tf.Tensor) -> tf.Tensor:
        return projection.zooming(parameters["zoom"], height, width)
