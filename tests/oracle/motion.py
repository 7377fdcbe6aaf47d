"""Projective transforms, one per image: flip, shear, translation, rotation, zoom and affine.

A transform is float32 [1 or batch, 8] as in `ImageProjectiveTransformV3`: it sends output to input points. The matrices
equal the layers RandomRotation, RandomZoom and RandomTranslation of Keras.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import tensorflow as tf

from oracle import randomness
from oracle.table import APPLIES, DRAWS, TRANSFORMS, Drawn, entered
from tfhet.stages import Stage

REFLECTED = ("random_rotation", "random_zoom", "resize")
"""Stages that mirror the image at its edges, whatever their fields."""


def transform(*columns: Any) -> np.ndarray:
    """Makes a transform of its first six columns, numbers or float32 [batch]."""
    return np.stack(np.broadcast_arrays(*map(np.float32, np.atleast_1d(*columns)), *[np.float32([0])] * 2), axis=1)


def rotation(angles: np.ndarray, height: int, width: int) -> np.ndarray:
    """Radians, counter-clockwise."""
    cos, sin = (np.float32(wave(np.float64(angles))) for wave in (np.cos, np.sin))
    right, bottom = np.float32(width - 1), np.float32(height - 1)
    x_offset = (right - (cos * right - sin * bottom)) / np.float32(2)
    y_offset = (bottom - (sin * right + cos * bottom)) / np.float32(2)
    return transform(cos, -sin, x_offset, sin, cos, y_offset)


def zooming(zooms: np.ndarray, height: int, width: int) -> np.ndarray:
    x_offset, y_offset = (np.float32((length - 1) / 2) * (1 - zooms) for length in (width, height))
    return transform(zooms, 0, x_offset, 0, zooms, y_offset)


def translation(down: np.ndarray, right: np.ndarray) -> np.ndarray:
    return transform(1, 0, -right, 0, 1, -down)


def shearing(shears: np.ndarray, height: int) -> np.ndarray:
    return transform(1, shears, np.float32((height - 1) / 2) * -shears, 0, 1, 0)


def composed(*transforms: np.ndarray) -> np.ndarray:
    """The transform that stands for sampling by each in turn: the last one applies first to an output point."""
    squares = [np.insert(each, 8, 1, axis=1).reshape(-1, 3, 3) for each in transforms]
    flat = functools.reduce(_product, squares).reshape(-1, 9)
    return flat[:, :8] / flat[:, 8:]


def _product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The product of 3x3 matrices, with one rounding for each multiply-add, as in TensorFlow's oneDNN."""
    result = np.float32(0.0)
    for i in range(3):
        result = np.float32(np.float64(a[:, :, i, None]) * b[:, None, i] + result)
    return result


def project(images: np.ndarray, transforms: np.ndarray, fill: tuple[str, float], size: tuple[int, int]) -> np.ndarray:
    """Samples bilinearly; uint8 is rounded."""
    values = tf.raw_ops.ImageProjectiveTransformV3(
        images=images.astype(np.float32),
        transforms=transforms,
        output_shape=np.int32(size),
        fill_value=fill[1],
        interpolation="BILINEAR",
        fill_mode=fill[0].upper(),
    ).numpy()
    return values if images.dtype == np.float32 else np.rint(values).astype(np.uint8)


def fill_of(stage: Stage) -> tuple[str, float] | None:
    """The fill and its value; None for a stage that does not reach beyond the edge."""
    if stage.name in REFLECTED:
        return "reflect", 0.0
    return None if stage.name == "random_flip" else (stage.fill_mode, stage.fill_value)


@entered(DRAWS, "random_flip")
def _flips(stage: Stage, keys: np.ndarray, spec: Any) -> dict[str, np.ndarray]:
    flips = (("flip_horizontal", stage.horizontal), ("flip_vertical", stage.vertical))
    return {name: randomness.bernoulli(keys, draw) for draw, (name, is_set) in enumerate(flips) if is_set}


@entered(TRANSFORMS, "random_flip")
def _flipping(stage: Stage, drawn: Drawn, height: int, width: int) -> np.ndarray:
    across, upright = (drawn.get(name, np.array([False])) for name in ("flip_horizontal", "flip_vertical"))
    (x_scale, x), (y_scale, y) = ((1 - 2 * on, on * (n - 1)) for on, n in ((across, width), (upright, height)))
    return transform(x_scale, 0, x, 0, y_scale, y)


@entered(DRAWS, "random_shear")
def _shears(stage: Stage, keys: np.ndarray, spec: Any) -> dict[str, np.ndarray]:
    return {"shear": randomness.uniform(keys, 0, -stage.factor, stage.factor)}


@entered(TRANSFORMS, "random_shear")
def _shearing(stage: Stage, drawn: Drawn, height: int, width: int) -> np.ndarray:
    return shearing(drawn["shear"], height)


@entered(DRAWS, "random_translation")
def _moves(stage: Stage, keys: np.ndarray, spec: Any) -> dict[str, np.ndarray]:
    factors = (("down", stage.height_factor), ("right", stage.width_factor))
    return {name: randomness.uniform(keys, draw, -most, most) for draw, (name, most) in enumerate(factors)}


@entered(TRANSFORMS, "random_translation")
def _translation(stage: Stage, drawn: Drawn, height: int, width: int) -> np.ndarray:
    return translation(drawn["down"] * np.float32(height), drawn["right"] * np.float32(width))


@entered(DRAWS, "random_rotation")
def _angles(stage: Stage, keys: np.ndarray, spec: Any) -> dict[str, np.ndarray]:
    most = stage.factor * 2.0 * math.pi
    return {"angle": randomness.uniform(keys, 0, -most, most)}


@entered(TRANSFORMS, "random_rotation")
def _rotation(stage: Stage, drawn: Drawn, height: int, width: int) -> np.ndarray:
    return rotation(drawn["angle"], height, width)


@entered(DRAWS, "random_zoom")
def _zooms(stage: Stage, keys: np.ndarray, spec: Any) -> dict[str, np.ndarray]:
    return {"zoom": randomness.uniform(keys, 0, 1.0 - stage.factor, 1.0 + stage.factor)}


@entered(TRANSFORMS, "random_zoom")
def _zooming(stage: Stage, drawn: Drawn, height: int, width: int) -> np.ndarray:
    return zooming(drawn["zoom"], height, width)


@entered(DRAWS, "random_affine")
def _numbers(stage: Stage, keys: np.ndarray, spec: Any) -> dict[str, np.ndarray]:
    most = math.radians(stage.degrees)
    ranges = {
        "angle": (-most, most),
        "down": (-stage.height_factor, stage.height_factor),
        "right": (-stage.width_factor, stage.width_factor),
        "scale": (stage.scale_low, stage.scale_high),
        "shear": (-stage.shear, stage.shear),
    }
    return {name: randomness.uniform(keys, draw, *ends) for draw, (name, ends) in enumerate(ranges.items())}


@entered(TRANSFORMS, "affine", "random_affine")
def _affine(stage: Stage, drawn: Drawn, height: int, width: int) -> np.ndarray:
    """Scales, shears and rotates about the centre, then moves: torchvision's order."""
    fixed = {} if drawn else {"angle": math.radians(stage.degrees), **vars(stage)}
    names = ("angle", "down", "right", "scale", "shear")
    angle, down, right, scale, shear = (drawn[n] if drawn else np.float32([fixed[n]]) for n in names)
    return composed(
        zooming(1 / scale, height, width),
        shearing(shear, height),
        rotation(angle, height, width),
        translation(down * np.float32(height), right * np.float32(width)),
    )


@entered(TRANSFORMS, "resize")
def _resizing(stage: Stage, drawn: Drawn, height: int, width: int) -> np.ndarray:
    """Centres of pixels are half a pixel from the edges, as in `tf.image.resize`."""
    down, across = (np.float32([n]) / np.float32(to) for n, to in ((height, stage.height), (width, stage.width)))
    return transform(across, 0, (across - 1) / 2, 0, down, (down - 1) / 2)


@entered(APPLIES, *(name for name in TRANSFORMS if name != "resize"))
def _moved(stage: Stage, images: np.ndarray, drawn: Drawn) -> np.ndarray:
    size = images.shape[1:3]
    return project(images, TRANSFORMS[stage.name](stage, drawn, *size), fill_of(stage) or ("nearest", 0.0), size)
