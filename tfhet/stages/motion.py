"""Stages that move the content of images: flip, shear, translation, rotation, zoom, and all of them at once."""

from __future__ import annotations

from typing import Annotated, ClassVar, TypeAlias

from tfhet.stages.projection import Filled, FillMode, Geometric
from tfhet.stages.registry import register
from tfhet.stages.stage import Finite, Fraction, Positive, Within


@register("random_flip")
class RandomFlip(Geometric):
    """Mirrors in each direction with probability 1/2, independently, as the Keras layer RandomFlip does.

    Draws `flip_horizontal` and `flip_vertical`, those that are set: bool [batch].
    """

    random: ClassVar[bool] = True

    horizontal: bool = True
    """Whether left and right may be exchanged."""
    vertical: bool = False
    """Whether top and bottom may be exchanged."""

    commutes_with_rescale: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (self.horizontal or self.vertical):
            self.refuse("neither horizontal nor vertical is set: omit the stage")


@register("random_shear")
class RandomShear(Filled):
    """Shears by a uniform slope, bilinear: Addons' `shear_x` of a random level, about the centre instead of the top.

    Draws `shear` in columns per row, positive moves the lower half to the left: float32 [batch].
    """

    random: ClassVar[bool] = True

    factor: Fraction = 0.1
    """Maximum slope either way, in columns per row: 0.1 is an angle of atan(0.1) = 5.7 degrees. From 0 to 1."""
    fill_mode: FillMode = "reflect"
    fill_value: float = 0.0


@register("random_translation")
class RandomTranslation(Filled):
    """Moves by uniform fractions of the size, bilinear, as the Keras layer RandomTranslation does.

    Draws `down` and `right`, fractions of height and width by which the content moves: float32 [batch].
    """

    random: ClassVar[bool] = True

    height_factor: Fraction = 0.1
    """Maximum distance up or down, as a fraction of the height. From 0 to 1."""
    width_factor: Fraction = 0.1
    """Maximum distance left or right, as a fraction of the width. From 0 to 1."""
    fill_mode: FillMode = "reflect"
    fill_value: float = 0.0


class _Reflected(Geometric):
    """A random stage that mirrors the image at its edges."""

    commutes_with_rescale: ClassVar[bool] = True

    @property
    def fill(self) -> tuple[str, float]:
        return "reflect", 0.0


@register("random_rotation")
class RandomRotation(_Reflected):
    """Rotates by a uniform angle, bilinear and reflected at the edges, as the Keras layer RandomRotation does.

    Draws `angle` in radians, positive counter-clockwise: float32 [batch].
    """

    random: ClassVar[bool] = True

    factor: Fraction = 0.1
    """Maximum angle either way, in turns: 0.1 is 36 degrees. From 0 to 1."""


@register("random_zoom")
class RandomZoom(_Reflected):
    """Zooms by a uniform factor, bilinear and reflected at the edges: the Keras layer RandomZoom, aspect kept.

    Draws `zoom`, above 1 zooms out: float32 [batch].
    """

    random: ClassVar[bool] = True

    factor: Annotated[float, Within(0, 1, below=True)] = 0.1
    """Range of the zoom: from 1 - factor (closer) to 1 + factor (farther). From 0 to below 1."""


Offset: TypeAlias = Annotated[float, Within(-1, 1)]


@register("affine")
class Affine(Filled):
    """Scales, shears and rotates about the centre, then moves, in one bilinear sampling: torchvision's order."""

    degrees: Finite = 0.0
    """Angle in degrees; positive is counter-clockwise."""
    down: Offset = 0.0
    """Distance by which the content moves down, as a fraction of the height. From -1 to 1."""
    right: Offset = 0.0
    """Distance by which the content moves to the right, as a fraction of the width. From -1 to 1."""
    scale: Positive = 1.0
    """Factor; above 1 enlarges the content. Positive."""
    shear: Offset = 0.0
    """Slope in columns per row, as in `random_shear`. From -1 to 1."""
    fill_mode: FillMode = "reflect"
    fill_value: float = 0.0


@register("random_affine")
class RandomAffine(Filled):
    """Applies `affine` with uniform values: torchvision's RandomAffine, but bilinear and with shear as a slope.

    Draws `angle` in radians, positive is counter-clockwise, `down` and `right`, by which the content moves, as
    fractions of height and width, `scale`, above 1 enlarges, and `shear` in columns per row: float32 [batch].
    """

    random: ClassVar[bool] = True

    degrees: Annotated[float, Within(0, 360)] = 10.0
    """Maximum angle either way, in degrees. From 0 to 360."""
    height_factor: Fraction = 0.1
    """Maximum distance up or down, as a fraction of the height. From 0 to 1."""
    width_factor: Fraction = 0.1
    """Maximum distance left or right, as a fraction of the width. From 0 to 1."""
    scale_low: Positive = 0.9
    """Minimum enlargement. Positive."""
    scale_high: Positive = 1.1
    """Maximum enlargement. From scale_low."""
    shear: Fraction = 0.1
    """Maximum slope either way, in columns per row. From 0 to 1."""
    fill_mode: FillMode = "reflect"
    fill_value: float = 0.0

    ordered: ClassVar[tuple[tuple[str, str], ...]] = (("scale_low", "scale_high"),)
