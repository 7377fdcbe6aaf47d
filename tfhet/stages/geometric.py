"""Stages that only move pixels: each says where a pixel of the result comes from, and one sampling does the rest."""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow as tf

from tfhet.errors import unknown
from tfhet.stages import projection
from tfhet.stages.spec import ImageSpec
from tfhet.stages.stage import Stage


class Geometric(Stage):
    """A stage that is one projective transform per image, so that neighbours can be sampled together, and that a mask
    or a box can be moved by the same numbers as its image."""

    @property
    def moves(self) -> bool:
        """Whether it is nothing but that transform and a bilinear sampling, as it is configured."""
        return True

    @property
    def fill(self) -> tuple[str, float] | None:
        """What lies beyond the edge: one of `projection.FILLS`, and the value for `constant`; None for a transform that
        reaches nothing beyond it."""
        return None

    def size(self, spec: ImageSpec) -> tuple[int, int] | None:
        """Rows and columns of the result; None: those of the images."""
        return None

    def transforms(self, parameters: Mapping[str, tf.Tensor], height: tf.Tensor, width: tf.Tensor) -> tf.Tensor:
        """Sizes of the images in pixels -> float32 [batch, 8], or [1, 8] for all alike, as `projection` has them."""
        raise NotImplementedError

    def apply(self, images: tf.Tensor, parameters: Mapping[str, tf.Tensor]) -> tf.Tensor:
        shape = tf.shape(images)
        transforms = self.transforms(parameters, shape[1], shape[2])
        size = self.size(ImageSpec.of(tf.TensorSpec(images.shape, images.dtype)))
        mode, value = self.fill or ("nearest", 0.0)
        return projection.project(images, transforms, mode, value, size)


class Filled(Geometric):
    """One with the fields `fill_mode` and `fill_value`."""

    fill_mode: str
    fill_value: float

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.fill_mode not in projection.FILLS:
            unknown(f"fill_mode of stage {self.name}", self.fill_mode, projection.FILLS)

    @property
    def commutes_with_rescale(self) -> bool:
        # A constant would be rescaled together with the images, or not.
        return self.fill_mode != "constant"

    def spec(self, spec: ImageSpec) -> ImageSpec:
        if self.fill_mode == "constant" and not spec.low <= self.fill_value <= spec.high:
            self.refuse(f"fill_value {self.fill_value:g} is outside the images' range, {spec.low:g} to {spec.high:g}")
        return spec

    @property
    def fill(self) -> tuple[str, float]:
        return self.fill_mode, self.fill_value
