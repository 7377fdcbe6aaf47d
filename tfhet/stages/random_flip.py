"""Mirrors each image at random."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import tensorflow as tf

from tfhet import native
from tfhet.stages import projection, randomness
from tfhet.stages.geometric import Geometric
from tfhet.stages.registry import register
from tfhet.stages.spec import ImageSpec


@register("random_flip")
@dataclass(frozen=True)
class RandomFlip(Geometric):
    """Mirrors in each direction with probability 1/2, independently, as the Keras layer RandomFlip does."""

    horizontal: bool = True
    """Whether left and right may be exchanged."""
    vertical: bool = False
    """Whether top and bottom may be exchanged."""

    random: ClassVar[bool] = True
    commutes_with_rescale: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (self.horizontal or self.vertical):
            self.refuse("neither horizontal nor vertical is set: omit the stage")

    def parameters(self, keys: tf.Tensor, spec: ImageSpec) -> dict[str, tf.Tensor]:
        """Returns `flip_horizontal` and `flip_vertical`, those that are set: bool [batch]."""
        drawn = {}
        if self.horizontal:
            drawn["flip_horizontal"] = randomness.bernoulli(keys, 0)
        if self.vertical:
            drawn["flip_vertical"] = randomness.bernoulli(keys, 1)
        return drawn

    def transforms(self, parameters: Mapping[str, tf.Tensor], height: tf.Tensor, width: tf.Tensor) -> tf.Tensor:
        never = tf.zeros_like(next(iter(parameters.values())))
        across, upright = (parameters.get(name, never) for name in ("flip_horizontal", "flip_vertical"))
        return projection.flipping(across, upright, height, width)

    def apply(self, images: tf.Tensor, parameters: Mapping[str, tf.Tensor]) -> tf.Tensor:
        if native.ops("sampling") is not None:
            return super().apply(images, parameters)
        for name, axis in (("flip_horizontal", 2), ("flip_vertical", 1)):
            if name in parameters:
                # tf.where broadcasts the condition over all pixels: 11 us for a 32x32 RGB image instead of 4.
                images = tf.raw_ops.Select(condition=parameters[name], x=tf.reverse(images, [axis]), y=images)
        return images
