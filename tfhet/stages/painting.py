"""Stages that paint over a rectangle of each image: cutout and random_erasing."""

from __future__ import annotations

import math
from typing import ClassVar

from tfhet.stages.registry import register
from tfhet.stages.spec import ImageSpec
from tfhet.stages.stage import Count, Fraction, Stage


class _Painting(Stage):
    value: float
    """Value that is painted, within the range of the images; a whole number for uint8."""

    def spec(self, spec: ImageSpec) -> ImageSpec:
        self.check_value("value", self.value, spec, whole=True)
        return spec


@register("cutout")
class Cutout(_Painting):
    """Paints over a square of each image, whose centre is any pixel (DeVries and Taylor, arXiv:1708.04552).

    The square is cut at the edges, as by the `cutout` of Addons; its `random_cutout` keeps the whole square inside.
    Images are uint8 or float32 of any range; the dtype stays.

    Draws `centre_y`, `centre_x`: float32 [batch], fractions of height and width, from 0 to below 1.
    """

    random: ClassVar[bool] = True

    size: Count = 8
    """Side of the square in pixels, from 1; for an even size the centre is the pixel right of and below the middle."""
    value: float = 0.0


@register("random_erasing")
class RandomErasing(_Painting):
    """Paints over a rectangle of uniform area, log-uniform shape and uniform place (Zhong et al., arXiv:1708.04896).

    A side that is longer than the image is cut, where the paper draws again. Images are uint8 or float32 of any range;
    the dtype stays.

    Draws `erase`, bool [batch], and float32 [batch]: `area`, a fraction of the image, `ratio`, height / width, and
    `top` and `left`, fractions, below 1, of the room that the rectangle leaves.
    """

    random: ClassVar[bool] = True

    probability: Fraction = 0.5
    """Probability that an image gets a rectangle. From 0 to 1."""
    scale: tuple[float, float] = (0.02, 0.33)
    """Minimum and maximum area, as a fraction of the image's. From 0 to 1."""
    ratio: tuple[float, float] = (0.3, 3.3)
    """Minimum and maximum height / width. Positive."""
    value: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, most in (("scale", 1.0), ("ratio", math.inf)):
            pair = getattr(self, name)
            numbers = isinstance(pair, (tuple, list)) and all(type(n) in (int, float) for n in pair)
            if not numbers or len(pair) != 2 or not 0.0 < pair[0] <= pair[1] <= most or math.isinf(pair[1]):
                self.refuse(f"{name} is a pair of positive numbers, the smaller first, up to {most:g}; not {pair!r}")
            object.__setattr__(self, name, (float(pair[0]), float(pair[1])))
