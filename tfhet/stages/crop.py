"""Stages that cut windows out of images or add a border: pad, center_crop and random_crop."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, ClassVar

from tfhet.stages.registry import register
from tfhet.stages.spec import ImageSpec
from tfhet.stages.stage import CountOrZero, Stage

MODES = ("constant", "edge", "reflect", "symmetric")
"""Kinds of borders, as in numpy."""


class Bordered(Stage):
    keeps_shape: ClassVar[bool] = False

    mode: str
    value: float
    """Value of `constant`, within the range of the images; a whole number for uint8."""

    @property
    def _adds_value(self) -> bool:
        """Whether `value` may appear in the result."""
        return self.mode == "constant"

    @property
    def commutes_with_rescale(self) -> bool:
        # A constant would be rescaled together with the images, or not.
        return not self._adds_value


@register("pad")
class Pad(Bordered):
    """Adds a number of pixels on each side or, if `height` or `width` is set, as many as are missing."""

    top: CountOrZero = 0
    """Rows added above."""
    bottom: CountOrZero = 0
    """Rows added below."""
    left: CountOrZero = 0
    """Columns added on the left."""
    right: CountOrZero = 0
    """Columns added on the right."""
    height: CountOrZero = 0
    """Rows of the result with the image in the middle (an odd row goes below); 0 adds top and bottom instead."""
    width: CountOrZero = 0
    """Columns of the result with the image in the middle (an odd one goes right); 0 adds left and right instead."""
    mode: Annotated[str, MODES] = "constant"
    """constant (`value`), edge (the last pixel), reflect (the edge once) or symmetric (the edge twice), as in
    `numpy.pad`, which mirrors again where the border is larger than the image."""
    value: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.height and (self.top or self.bottom)) or (self.width and (self.left or self.right)):
            self.refuse("give either the size of the result or the border, not both along one axis")

    def spec(self, spec: ImageSpec) -> ImageSpec:
        if self._adds_value:
            self.check_value("value", self.value, spec, whole=True)
        (above, below), (before, after) = self._borders(spec.height, spec.width)
        height = None if spec.height is None else above + spec.height + below
        width = None if spec.width is None else before + spec.width + after
        return replace(spec, height=height, width=width)

    def _borders(self, height: int | None, width: int | None) -> tuple[tuple[int, int], tuple[int, int]]:
        rows = self._border(self.height, (self.top, self.bottom), height, "rows")
        return rows, self._border(self.width, (self.left, self.right), width, "columns")

    def _border(self, wanted: int, border: tuple[int, int], there: int | None, what: str) -> tuple[int, int]:
        if there is None and (wanted or self.mode != "constant"):
            self.refuse(f"how many {what} the images have must be known: resize them before")
        if not wanted or there is None:
            return border
        if wanted < there:
            self.refuse(f"images with {there} {what} cannot be padded to {wanted}: crop them before")
        return (wanted - there) // 2, (wanted - there + 1) // 2


@register("center_crop")
class CenterCrop(Stage):
    """Cuts the middle out of every image.

    Where margins are odd, the bottom and the right one are larger, as in the Keras layer CenterCrop.
    """

    height: CountOrZero = 0
    """Rows of the result; 0: as many as the shorter side of the image has."""
    width: CountOrZero = 0
    """Columns of the result; 0: as many as the shorter side of the image has."""

    keeps_shape: ClassVar[bool] = False
    commutes_with_rescale: ClassVar[bool] = True

    def spec(self, spec: ImageSpec) -> ImageSpec:
        height, width = self._size(spec.height, spec.width)
        return replace(spec, height=height, width=width)

    def _size(self, height: int | None, width: int | None) -> tuple[int, int]:
        """Returns rows and columns of the result. height, width: of the images; None if unknown."""
        if height is None or width is None:
            if not (self.height and self.width):
                self.refuse("the shorter side of the images is not known: give height and width, or resize before")
            return self.height, self.width
        result = self.height or min(height, width), self.width or min(height, width)
        if result[0] > height or result[1] > width:
            self.refuse(f"{result[0]} x {result[1]} pixels are more than the {height} x {width} there are: pad before")
        return result


@register("random_crop")
class RandomCrop(Bordered):
    """Cuts a window out of each image, all places being equally likely, as torchvision's RandomCrop.

    `random_crop(padding=4)` is usual for CIFAR: it pads by 4 pixels on each side and cuts back to the former size.

    Draws `top` and `left`, the window's first row and column in the padded image: int32 [batch].
    """

    random: ClassVar[bool] = True

    height: CountOrZero = 0
    """Rows of the result; 0: as many as the image has."""
    width: CountOrZero = 0
    """Columns of the result; 0: as many as the image has."""
    padding: CountOrZero = 0
    """Number of pixels that are first added on each side."""
    mode: Annotated[str, MODES] = "constant"
    """Kind of padding: constant (`value`), edge, reflect or symmetric, as in `pad`."""
    value: float = 0.0

    @property
    def _adds_value(self) -> bool:
        return self.padding > 0 and self.mode == "constant"

    def spec(self, spec: ImageSpec) -> ImageSpec:
        if self._adds_value:
            self.check_value("value", self.value, spec, whole=True)
        height, width = self._size(*self.known_size(spec))
        return replace(spec, height=height, width=width)

    def _size(self, height: int, width: int) -> tuple[int, int]:
        result = self.height or height, self.width or width
        room = height + 2 * self.padding, width + 2 * self.padding
        if result[0] > room[0] or result[1] > room[1]:
            self.refuse(f"{result[0]} x {result[1]} pixels do not fit into {room[0]} x {room[1]}: give more padding")
        return result
