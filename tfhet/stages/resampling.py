"""Stages that resize a window of each image to one size, bilinearly (`kernels/resample.h`)."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from tfhet.stages.spec import ImageSpec
from tfhet.stages.stage import Stage


class Window(Stage):
    """A stage that is one bilinear sampling of a window of each image, which depends only on the image's size: after
    `decode` only the window has to be decoded."""

    keeps_shape: ClassVar[bool] = False
    takes: ClassVar[tuple[str, ...]] = ("images", "ragged")

    height: int
    width: int
    antialias: bool

    def spec(self, spec: ImageSpec) -> ImageSpec:
        self.admit(spec)
        return replace(spec, height=self.height, width=self.width, ragged=False)

    @property
    def bilinear(self) -> bool:
        """Whether the stage is a bilinear sampling of its windows. If not, it needs decoded images of one size."""
        return True
