"""Grey-scale dilation with a flat square: each pixel becomes the maximum of its neighbourhood."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tfhet.stages.morphology import Morphology
from tfhet.stages.registry import register


@register("dilate")
@dataclass(frozen=True)
class Dilate(Morphology):
    """Replaces each pixel by the maximum of a square around it; the dtype stays.

    It equals `tf.nn.dilation2d` with a filter of zeros, stride 1 and SAME padding.
    """

    size: int = 3
    """Side of the square in pixels, from 1."""

    largest: ClassVar[bool] = True
