"""dilate, erode, gaussian_blur and sharpen."""

from __future__ import annotations

import math

import numpy as np

from oracle import tone
from oracle.table import APPLIES, Drawn, entered
from tfhet.stages import Stage

CUT_MARGIN = np.float32(2.0**-13)
"""Added before blurred values are truncated, so that a plain area keeps its level."""


@entered(APPLIES, "dilate", "erode")
def _extreme(stage: Stage, images: np.ndarray, drawn: Drawn) -> np.ndarray:
    """`tf.nn.dilation2d` and `erosion2d` with a filter of zeros and SAME padding."""
    least, most = (0, 255) if images.dtype == np.uint8 else (-math.inf, math.inf)
    extreme, beyond = (np.maximum, least) if stage.name == "dilate" else (np.minimum, most)
    before = (stage.size - 1) // 2
    for axis in (1, 2):
        around = [(before, stage.size - 1 - before) if axis == each else (0, 0) for each in range(4)]
        padded = np.pad(images, around, constant_values=beyond)
        parts = (np.take(padded, np.arange(i, i + images.shape[axis]), axis) for i in range(stage.size))
        images = extreme.reduce(list(parts))
    return images


@entered(APPLIES, "gaussian_blur")
def _blurred(stage: Stage, images: np.ndarray, drawn: Drawn) -> np.ndarray:
    """Addons' `gaussian_filter2d`; for an even size the centre is left of the middle."""
    offsets = np.arange(-stage.size // 2 + 1, stage.size // 2 + 1)
    weights = np.exp(-(offsets**2) / (2.0 * stage.sigma**2))
    weights = np.float32(weights / weights.sum())
    before = (stage.size - 1) // 2
    around = (before, stage.size - 1 - before)
    values = np.pad(images.astype(np.float32), [(0, 0), around, around, (0, 0)], mode=stage.padding.lower())
    height, width = images.shape[1:3]
    values = sum(weight * values[:, i : i + height] for i, weight in enumerate(weights))
    values = sum(weight * values[:, :, i : i + width] for i, weight in enumerate(weights))
    return values if images.dtype == np.float32 else np.clip(values + CUT_MARGIN, 0, 255).astype(np.uint8)


@entered(APPLIES, "sharpen")
def _sharpen(stage: Stage, images: np.ndarray, drawn: Drawn) -> np.ndarray:
    return sharpened(images, np.float32([stage.amount]))


def sharpened(images: np.ndarray, amounts: np.ndarray) -> np.ndarray:
    """Pillow's `ImageEnhance.Sharpness` by amounts [1 or batch]; the outermost pixels stay."""
    values = images.astype(np.float32)
    rows = values[:, :-2] + values[:, 1:-1] + values[:, 2:]
    box = rows[:, :, :-2] + rows[:, :, 1:-1] + rows[:, :, 2:]
    # smooth(x) - x = (box + 4 x) / 13 - x.
    softenings = ((1.0 - amounts) / np.float32(13.0))[:, None, None, None]
    result = values.copy()
    result[:, 1:-1, 1:-1] += (box - 9.0 * values[:, 1:-1, 1:-1]) * softenings
    return tone.restored(result, images.dtype)
