"""What a translation of torchvision's transforms knows of the images, and how it reads arguments."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tfhet.stages.choice import Probability
from tfhet.stages.stage import Stage


class Untranslatable(Exception):
    """No stages equal a transform. The message says why."""


@dataclass
class Images:
    """What is known of the images between two transforms."""

    size: tuple[int, int] | None = None
    is_float: bool = False
    is_tensor: bool = False
    """Whether they are tensors, and not PIL images."""
    is_due: bool = False
    """Whether a conversion to 0..1 has no stage yet: `normalize` includes it."""
    shorter: tuple[int, bool] | None = None
    """Shorter side and antialias of a Resize that keeps the aspect, for the CenterCrop that has to follow."""
    notes: list[str] = field(default_factory=list)
    """What differs in the transform that is translated."""


Rule = Callable[[Any, Images], Sequence[Stage]]
"""Function from a transform and the images before it to equal stages. It updates the images."""
_CODES = ("nearest", "lanczos", "bilinear", "bicubic", "box", "hamming")
"""Pillow's numbers of interpolations."""


def with_p(stage: Stage, p: float) -> list[Stage]:
    return [] if p <= 0.0 else [stage] if p >= 1.0 else [Probability(stage, float(p))]


def pair(size: Any) -> tuple[int, int]:
    values = [size] if isinstance(size, int) else list(size)
    return int(values[0]), int(values[-1])


def interpolation(transform: Any) -> str:
    value = getattr(transform.interpolation, "value", transform.interpolation)
    return _CODES[value] if isinstance(value, int) else str(value)


def bilinear(transform: Any) -> None:
    if (found := interpolation(transform)) != "bilinear":
        raise Untranslatable(f"the interpolation is {found}, and the stage samples bilinearly")


def sampled(transform: Any, images: Images) -> None:
    """Notes how a moved image is sampled."""
    found = interpolation(transform)
    if found not in ("nearest", "bilinear"):
        raise Untranslatable(f"the interpolation is {found}, and the stage samples bilinearly")
    if found == "nearest":
        images.notes.append("the stage samples bilinearly, torchvision takes the nearest pixel")
    else:
        images.notes.append("the outermost pixels of the moved image are blended with the fill")


def antialias(transform: Any, images: Images) -> bool:
    """Returns whether a resize is antialiased, which Pillow always does."""
    if transform.antialias is not False or images.is_tensor:
        return transform.antialias is not False
    images.notes.append("antialias=False has no effect on PIL images: the stage antialiases; it would have on tensors")
    return True


def constant(fill: Any) -> float:
    if isinstance(fill, Mapping):
        by_name = {getattr(key, "__name__", key): value for key, value in fill.items()}
        fill = by_name.get("Image", by_name.get("others", 0))
    values = {0.0} if fill is None else {float(n) for n in (fill if isinstance(fill, (list, tuple)) else [fill])}
    if len(values) > 1:
        raise Untranslatable("the fill differs by channel, and stages fill all channels alike")
    return values.pop()


def symmetric(bounds: Any, what: str, centre: float = 0.0, least: float = -math.inf) -> float:
    """Returns the maximum distance from the centre. least: below it, the lower bound is cut off."""
    low, high = (float(n) for n in bounds)
    reach = high - centre
    if reach < 0.0 or not math.isclose(low, max(least, centre - reach), abs_tol=1e-9):
        raise Untranslatable(f"{what} from {low:g} to {high:g} is not symmetric about {centre:g}, as in the stage")
    return round(reach, 12)  # without the error of the subtraction


def applied(make: Callable[[Any, Images], Stage]) -> Rule:
    """Returns the rule of a transform that is applied with a probability."""
    return lambda transform, images: with_p(make(transform, images), transform.p)
