"""Rules for the transforms of torchvision that resize, cut, pad and move images."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from tfhet.stages.crop import CenterCrop, Pad, RandomCrop
from tfhet.stages.motion import Affine, RandomAffine, RandomFlip
from tfhet.stages.resize import RandomResizedCrop, Resize, ResizedCenterCrop
from tfhet.stages.stage import Stage
from tfhet.stages.torchvision.images import (
    Images,
    Rule,
    Untranslatable,
    antialias,
    bilinear,
    constant,
    interpolation,
    pair,
    sampled,
    symmetric,
    with_p,
)


def _resize(transform: Any, images: Images) -> Sequence[Stage]:
    method, size = interpolation(transform), transform.size
    if method == "nearest-exact" or (method == "nearest" and not images.is_tensor):
        method = "nearest"
    elif method != "bilinear":
        raise Untranslatable(f"the interpolation is {method}: the stage equals bilinear, and nearest on PIL images")
    if transform.max_size is not None or size is None:
        raise Untranslatable("max_size has no equal: give (h, w)")
    smooth = method == "bilinear" and antialias(transform, images)
    if isinstance(size, int) or len(size) == 1:
        shorter = pair(size)[0]
        if images.size is None:
            if method != "bilinear":
                raise Untranslatable("with one number for the size the interpolation must be bilinear")
            images.shorter = shorter, smooth
            return []
        least = min(images.size)
        images.size = int(shorter * images.size[0] / least), int(shorter * images.size[1] / least)
    else:
        images.size = pair(size)
    return [Resize(*images.size, method=method, antialias=smooth)]


def _center_crop(transform: Any, images: Images) -> Sequence[Stage]:
    height, width = size = pair(transform.size)
    if images.shorter is not None:
        shorter, smooth = images.shorter
        stage: Stage = ResizedCenterCrop(height, width, shorter, smooth)
        images.shorter, images.size = None, size
        return [stage]
    if images.size is not None:
        margins = [there - wanted for there, wanted in zip(images.size, size, strict=True)]
        if min(margins) < 0:
            raise Untranslatable(f"the crop is larger than the images, {images.size[0]} x {images.size[1]}")
    if images.size is None or any(margin % 4 == 3 for margin in margins):
        images.notes.append("for margins of 3, 7, 11, ... pixels the crop begins one pixel before torchvision's")
    images.size = size
    return [CenterCrop(height, width)]


def _pad(transform: Any, images: Images) -> Sequence[Stage]:
    return _padded(transform, transform.padding, images)


def _padded(transform: Any, padding: Any, images: Images) -> list[Pad]:
    values = [padding] if isinstance(padding, int) else list(padding)
    left, top, right, bottom = values if len(values) == 4 else [values[0], values[-1]] * 2
    if images.size is not None:
        images.size = images.size[0] + top + bottom, images.size[1] + left + right
    return [Pad(top, bottom, left, right, mode=transform.padding_mode, value=constant(transform.fill))]


def _random_crop(transform: Any, images: Images) -> Sequence[Stage]:
    height, width = size = pair(transform.size)
    padding = transform.padding
    if padding and type(transform).__module__.startswith("torchvision.transforms.v2."):
        left, right, top, bottom = padding  # in this order, unlike in the argument
        padding = left, top, right, bottom
    border = _padded(transform, padding, images) if padding else []
    if transform.pad_if_needed and (images.size is None or images.size[0] < height or images.size[1] < width):
        raise Untranslatable("pad_if_needed pads images of some sizes only: use Pad, or resize before")
    images.size = size
    for pad in border:
        if len({pad.top, pad.bottom, pad.left, pad.right}) == 1:
            return [RandomCrop(height, width, padding=pad.top, mode=pad.mode, value=pad.value)]
    return [*border, RandomCrop(height, width)]


def _random_resized_crop(transform: Any, images: Images) -> Sequence[Stage]:
    bilinear(transform)
    images.size = pair(transform.size)
    (small, large), (narrow, wide) = (map(float, bounds) for bounds in (transform.scale, transform.ratio))
    return [RandomResizedCrop(*images.size, small, large, narrow, wide, antialias(transform, images))]


def _flip(stage: RandomFlip) -> Rule:
    def rule(transform: Any, images: Images) -> Sequence[Stage]:
        if transform.p > 0.5:
            raise Untranslatable(f"p is {transform.p:g}: random_flip flips with at most 1/2")
        return with_p(stage, 2.0 * transform.p)

    return rule


def _about_centre(transform: Any) -> None:
    if transform.center is not None:
        raise Untranslatable("center is set, and the stage moves about the centre of the image")


def _random_rotation(transform: Any, images: Images) -> Sequence[Stage]:
    _about_centre(transform)
    if transform.expand:
        raise Untranslatable("expand gives images of different sizes")
    fill = constant(transform.fill)
    low, high = (float(n) for n in transform.degrees)
    if low == high:
        stage: Stage = Affine(low, fill_mode="constant", fill_value=fill)
    else:
        degrees = symmetric(transform.degrees, "degrees")
        stage = RandomAffine(degrees, 0.0, 0.0, 1.0, 1.0, 0.0, "constant", fill)
    sampled(transform, images)
    return [stage]


def _random_affine(transform: Any, images: Images) -> Sequence[Stage]:
    _about_centre(transform)
    right, down = transform.translate or (0.0, 0.0)
    shears = [float(n) for n in transform.shear or (0.0, 0.0)]
    if any(shears[2:]):
        raise Untranslatable("the stage has no vertical shear")
    angle = symmetric(shears[:2], "shear")
    degrees, slope = symmetric(transform.degrees, "degrees"), math.tan(math.radians(angle))
    low, high = (float(n) for n in transform.scale or (1.0, 1.0))
    fill = constant(transform.fill)
    stage = RandomAffine(degrees, float(down), float(right), low, high, slope, "constant", fill)
    if angle:
        images.notes.append("the slope of the shear is uniform, torchvision's is the tangent of a uniform angle")
    if down or right:
        images.notes.append("images move by fractions of pixels, torchvision moves them by whole pixels")
    sampled(transform, images)
    return [stage]


GEOMETRY: Mapping[str, Rule] = {
    "CenterCrop": _center_crop,
    "Pad": _pad,
    "RandomAffine": _random_affine,
    "RandomCrop": _random_crop,
    "RandomHorizontalFlip": _flip(RandomFlip()),
    "RandomResizedCrop": _random_resized_crop,
    "RandomRotation": _random_rotation,
    "RandomVerticalFlip": _flip(RandomFlip(horizontal=False, vertical=True)),
    "Resize": _resize,
}
"""By the name of a transform's class, which is the same in versions 1 and 2."""
