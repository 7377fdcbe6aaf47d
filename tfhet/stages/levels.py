"""The full range of images, and stages that need it."""

from __future__ import annotations

import math
from typing import ClassVar

from tfhet.stages.spec import ImageSpec
from tfhet.stages.stage import Stage

FULL = {"uint8": 255.0, "float32": 1.0}
"""Brightest level by dtype; the darkest is 0."""


class FullRange(Stage):
    """A stage for images in their full range: uint8 in 0..255 or float32 in 0..1."""

    of_colours: ClassVar[bool] = False
    """Whether images must have 1 or 3 channels."""
    shortest: ClassVar[int] = 1
    """Minimum height and width."""

    def spec(self, spec: ImageSpec) -> ImageSpec:
        """Returns `spec`. Raises UsageError, naming the stage, for images that do not fit."""
        full = FULL[spec.dtype]
        if not (math.isclose(spec.low, 0.0, abs_tol=1e-6) and math.isclose(spec.high, full, rel_tol=1e-6)):
            self.refuse(
                f"needs {spec.dtype} images from 0 to {full:g}, not {spec.low:g} to {spec.high:g}: put it before the "
                "stage that changes the range, or rescale to 0..1 before it"
            )
        for length in (spec.height, spec.width):
            if length is not None and length < self.shortest:
                self.refuse(f"needs images of at least {self.shortest} pixels each way, not {length}")
        return grey_or_rgb(self, spec) if self.of_colours else spec


def grey_or_rgb(stage: Stage, spec: ImageSpec) -> ImageSpec:
    """Returns `spec`. Raises UsageError, naming the stage, unless images have 1 or 3 channels."""
    if spec.channels not in (1, 3):
        stage.refuse(f"needs images of 1 or 3 channels, not {spec.channels}")
    return spec
