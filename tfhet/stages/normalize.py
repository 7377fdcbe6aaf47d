"""Subtracts the mean and divides by the standard deviation."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import tensorflow as tf

from tfhet.stages import levels
from tfhet.stages.conversion import Converting
from tfhet.stages.line import Line
from tfhet.stages.registry import register
from tfhet.stages.spec import ImageSpec


@register("normalize")
@dataclass(frozen=True)
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

    def line(self, parameters: Mapping[str, tf.Tensor], spec: ImageSpec) -> Line:
        return Line.of(*self._scale_and_offset(spec.dtype))

    def _scale_and_offset(self, dtype: str) -> tuple[np.ndarray, np.ndarray]:
        """Returns scale and offset, float64 [1] or [channels], of the result scale * x + offset."""
        mean, std = np.array(self.mean), np.array(self.std)
        return 1.0 / (levels.FULL[dtype] * std), -mean / std
