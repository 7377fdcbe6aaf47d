"""Rotates the colours of each image on the colour wheel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import tensorflow as tf

from tfhet.stages import levels, randomness
from tfhet.stages.colours import mixed
from tfhet.stages.registry import register
from tfhet.stages.spec import ImageSpec
from tfhet.stages.stage import Stage


@register("random_hue")
@dataclass(frozen=True)
class RandomHue(Stage):
    """Adds a uniform number to the hue of HSV, as `tf.image.random_hue` does.

    Images are uint8 in 0..255 or float32 in 0..1; the dtype stays. Images of one channel stay unchanged.
    """

    delta: float = 0.1
    """Maximum rotation either way, in turns of the colour wheel: 1/3 makes red green. From 0 to 0.5."""

    random: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 <= self.delta <= 0.5:
            self.refuse(f"delta is in turns, from 0 to 0.5, not {self.delta}")

    def spec(self, spec: ImageSpec) -> ImageSpec:
        return levels.grey_or_rgb(self, levels.full_range(self, spec))

    def parameters(self, keys: tf.Tensor, spec: ImageSpec) -> dict[str, tf.Tensor]:
        """Returns `hue`, in turns, positive from red to green to blue: float32 [batch]."""
        return {"hue": randomness.uniform(keys, 0, -self.delta, self.delta)}

    def apply(self, images: tf.Tensor, parameters: Mapping[str, tf.Tensor]) -> tf.Tensor:
        if images.shape[3] == 1:
            return images
        return mixed(images, turns=parameters["hue"])
