"""Grey-scale erosion with a flat square: each pixel becomes the minimum of its neighbourhood."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tfhet.stages.morphology import Morphology
from tfhet.stages.registry import register


@register("erode")
@dataclass(frozen=True)
class Erode(Morphology):
    """The negative of `dilate` on the negative; SAME padding, any range, the dtype stays."""

    size: int = 3
    """Edge of the square in pixels, from 1."""

    largest: ClassVar[bool] = False
