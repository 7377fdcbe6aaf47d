"""Stages that change the range or the dtype of images: rescale, normalize and cast."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Annotated, ClassVar

import numpy as np

from tfhet.stages import levels
from tfhet.stages.registry import register
from tfhet.stages.spec import ImageSpec
from tfhet.stages.stage import Finite, Positive, Stage


class Converting(Stage):
    """A stage that is a line without random numbers, and leads to float32 unless it says otherwise."""

    keeps_range: ClassVar[bool] = False
    is_line: ClassVar[bool] = True
    pointwise: ClassVar[bool] = True


@register("rescale")
class Rescale(Converting):
    """Computes scale * x + offset as float32, as the Keras layer Rescaling does."""

    # A negative factor would turn a maximum into a minimum, so that the stage would commute with no other.
    scale: Positive = 1.0 / 255.0
    """Factor; positive."""
    offset: Finite = 0.0
    """Added after scaling."""

    rescales: ClassVar[bool] = True

    def spec(self, spec: ImageSpec) -> ImageSpec:
        low, high = (self.scale * bound + self.offset for bound in (spec.low, spec.high))
        return replace(spec, dtype="float32", low=low, high=high)


@register("cast")
class Cast(Converting):
    """Converts uint8 or float32 images to `dtype` without rescaling: 0..255 becomes 0.0..255.0.

    Values become uint8 by rounding and clipping to 0..255. Images in 0..1 need `rescale(255)` before `cast("uint8")`.
    """

    dtype: Annotated[str, tuple(levels.FULL)] = "float32"
    """`uint8` or `float32`."""

    def spec(self, spec: ImageSpec) -> ImageSpec:
        if self.dtype == spec.dtype or self.dtype == "float32":
            return replace(spec, dtype=self.dtype)
        low, high = (float(int(min(max(bound, 0.0), 255.0) + 0.5)) for bound in (spec.low, spec.high))
        return replace(spec, dtype=self.dtype, low=low, high=high)


@register("normalize")
class Normalize(Converting):
    """Computes (x - mean) / std as float32, with 1 as the brightest level, as torchvision's Normalize after ToTensor.

    uint8 images are divided by 255 in the same multiply-add; float32 images are not. ImageNet's numbers are
    `normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))`.
    """

    mean: tuple[float, ...] = (0.5,)
    """Mean that is subtracted: one number for each channel, or one for all."""
    std: tuple[float, ...] = (0.5,)
    """Standard deviation that divides: one positive number for each channel, or one for all."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("mean", "std"):
            given = getattr(self, name)
            numbers = tuple(given) if isinstance(given, (tuple, list)) else (given,)
            if not numbers or not all(type(n) in (int, float) and math.isfinite(n) for n in numbers):
                self.refuse(f"{name} is one number for each channel, or one for all, not {given!r}")
            object.__setattr__(self, name, tuple(float(n) for n in numbers))
        if min(self.std) <= 0.0:
            self.refuse(f"std is positive, not {self.std}")

    def spec(self, spec: ImageSpec) -> ImageSpec:
        for name, given in (("mean", self.mean), ("std", self.std)):
            if len(given) not in (1, spec.channels):
                self.refuse(f"{name} has {len(given)} numbers for images of {spec.channels} channels")
        scale, offset = self._scale_and_offset(spec.dtype)
        low, high = float((scale * spec.low + offset).min()), float((scale * spec.high + offset).max())
        return replace(spec, dtype="float32", low=low, high=high)

    def _scale_and_offset(self, dtype: str) -> tuple[np.ndarray, np.ndarray]:
        """Returns scale and offset, float64 [1] or [channels], of the result scale * x + offset."""
        mean, std = np.array(self.mean), np.array(self.std)
        return 1.0 / (levels.FULL[dtype] * std), -mean / std
