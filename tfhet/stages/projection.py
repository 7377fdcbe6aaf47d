"""Stages that move pixels: each is one geometric transform, a matrix per image (`kernels/geometry.h`)."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from tfhet.stages.spec import ImageSpec
from tfhet.stages.stage import Stage

FILLS = ("constant", "nearest", "reflect", "wrap")
"""Fills beyond the edge: `fill_value`, the edge pixel, the image mirrored (the edge twice), the image again."""


class Geometric(Stage):
    """A stage that is one projective transform per image. Neighbouring stages of this kind are sampled together, and a
    mask or a box can be moved by the image's transform."""

    @property
    def moves(self) -> bool:
        """Whether the stage, as configured, is only that transform with a bilinear sampling."""
        return True

    @property
    def fill(self) -> tuple[str, float] | None:
        """One of `FILLS` and the value of `constant`; None for a transform that does not reach beyond the edge."""
        return None

    def size(self, spec: ImageSpec) -> tuple[int, int] | None:
        """Returns rows and columns of the result; None for the images' own."""
        return None


FillMode: TypeAlias = Annotated[str, FILLS]


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
