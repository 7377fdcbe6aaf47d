"""Grey-scale dilation with a flat square: each pixel becomes the maximum of its neighbourhood."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tfhet.stages.morphology import Morphology
from tfhet.stages.registry import register


@register("dilate")
@dataclass(frozen=True)
class Dilate(Morphology):
    """The same as `tf.nn.dilation2d` with a filter of zeros, stride 1 and SAME padding; dtype stays."""

    size: int = 3
    """Edge of the square in pixels, from 1."""

    largest: ClassVar[bool] = True
