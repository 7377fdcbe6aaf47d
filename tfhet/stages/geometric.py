"""Stages that only move pixels: each says where a pixel of the result comes from, and one sampling applies it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, TypeAlias

import tensorflow as tf

from tfhet.stages import projection
from tfhet.stages.spec import ImageSpec
from tfhet.stages.stage import Stage


class Geometric(Stage):
    """A stage that is one projective transform per image.

    Neighbouring stages of this kind are sampled together, and a mask or a box can be moved by the image's transform.
    """

    @property
    def moves(self) -> bool:
        """Whether the stage, as configured, is only that transform with a bilinear sampling."""
        return True

    @property
    def fill(self) -> tuple[str, float] | None:
        """Fill beyond the edge: one of `projection.FILLS`, and the value of `constant`.

        None for a transform that does not reach beyond the edge.
        """
        return None

    def size(self, spec: ImageSpec) -> tuple[int, int] | None:
        """Returns rows and columns of the result; None for those of the images."""
        return None

    def transforms(self, parameters: Mapping[str, tf.Tensor], height: tf.Tensor, width: tf.Tensor) -> tf.Tensor:
        """Returns float32 [batch, 8], or [1, 8] for all images, as in `projection`. height, width: in pixels."""
        raise NotImplementedError

    def apply(self, images: tf.Tensor, parameters: Mapping[str, tf.Tensor]) -> tf.Tensor:
        shape = tf.shape(images)
        transforms = self.transforms(parameters, shape[1], shape[2])
        mode, value = self.fill or ("nearest", 0.0)
        return projection.project(images, transforms, mode, value, self.size(ImageSpec.of(images)))


FillMode: TypeAlias = Annotated[str, projection.FILLS]


class Filled(Geometric):
    """A stage whose fields say how to fill what lies beyond the edge."""

    fill_mode: str
    """Fill beyond the edge: constant, nearest, reflect or wrap."""
    fill_value: float
    """Value of `constant`, within the range of the images."""

    @property
    def commutes_with_rescale(self) -> bool:
        # A constant would be rescaled together with the images, or not.
        return self.fill_mode != "constant"

    def spec(self, spec: ImageSpec) -> ImageSpec:
        if self.fill_mode == "constant":
            self.check_value("fill_value", self.fill_value, spec)
        return spec

    @property
    def fill(self) -> tuple[str, float]:
        return self.fill_mode, self.fill_value
