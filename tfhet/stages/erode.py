"""Grey-scale erosion with a flat square: each pixel becomes the minimum of its neighbourhood."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tfhet.stages.morphology import Morphology
from tfhet.stages.registry import register


@register("erode")
@dataclass(frozen=True)
class Erode(Morphology):
    """Replaces each pixel by the minimum of a square around it; any range, and the dtype stays.

    Pixels beyond the edge do not count. It is the negative of `dilate` on the negative image.
    """

    size: int = 3
    """Side of the square in pixels, from 1."""

    largest: ClassVar[bool] = False
