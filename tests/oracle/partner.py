"""mixup and cutmix, which mix each image with the next one of the batch; one_hot."""

from __future__ import annotations

from typing import Any

import numpy as np

from oracle import randomness
from oracle.crop import inside
from oracle.table import APPLIES, DRAWS, Drawn, entered
from tfhet.stages import Stage
from tfhet.stages.mixup import SHARES, quantiles


@entered(APPLIES, "one_hot")
def _one_hot(stage: Stage, images: np.ndarray, drawn: Drawn) -> np.ndarray:
    return images


@entered(DRAWS, "mixup")
def _shares(stage: Stage, keys: np.ndarray, spec: Any) -> dict[str, np.ndarray]:
    return {"share": np.float32(quantiles(stage.alpha))[randomness.below(keys, 0, SHARES)]}


@entered(APPLIES, "mixup")
def _mixup(stage: Stage, images: np.ndarray, drawn: Drawn) -> np.ndarray:
    """Zhang et al., arXiv:1710.09412."""
    values = images.astype(np.float32)
    result = values + drawn["share"][:, None, None, None] * (np.roll(values, -1, axis=0) - values)
    return result if images.dtype == np.float32 else (result + np.float32(0.5)).astype(np.uint8)


@entered(DRAWS, "cutmix")
def _rectangles(stage: Stage, keys: np.ndarray, spec: Any) -> dict[str, np.ndarray]:
    at, sides = randomness.below(keys, 0, SHARES), np.sqrt(quantiles(stage.alpha))
    rectangle, pixels = {}, 1
    for draw, (begin, end, length) in enumerate((("top", "bottom", spec.height), ("left", "right", spec.width))):
        side = np.int32(sides * length)[at]
        centre = np.minimum(randomness.uniform(keys, 1 + draw) * np.float32(length), np.float32(length - 1))
        first = np.int32(centre) - side // 2
        rectangle[begin], rectangle[end] = np.maximum(first, 0), np.minimum(first + side, length)
        pixels = pixels * (rectangle[end] - rectangle[begin])
    return {**rectangle, "share": np.float32(pixels) * np.float32(1.0 / (spec.height * spec.width))}


@entered(APPLIES, "cutmix")
def _cutmix(stage: Stage, images: np.ndarray, drawn: Drawn) -> np.ndarray:
    """Yun et al., arXiv:1905.04899."""
    edges = (drawn[name] for name in ("top", "bottom", "left", "right"))
    return np.where(inside(images, *edges), np.roll(images, -1, axis=0), images)
