"""pad, center_crop and random_crop; cutout and random_erasing, which paint over rectangles."""

from __future__ import annotations

from typing import Any

import numpy as np

from oracle import randomness
from oracle.table import APPLIES, DRAWS, Drawn, entered
from tfhet.stages import Stage


def padded(images: np.ndarray, rows: tuple[int, int], columns: tuple[int, int], stage: Stage) -> np.ndarray:
    if stage.mode in ("reflect", "symmetric"):
        # Not by numpy.pad: in NumPy 1.26 its result is wrong if a margin exceeds the image (numpy/numpy#25926).
        down, across = (mirrored(images.shape[1 + axis], (rows, columns)[axis], stage.mode) for axis in (0, 1))
        return images[:, down[:, None], across]
    fill = {"constant_values": np.array(stage.value).astype(images.dtype)} if stage.mode == "constant" else {}
    return np.pad(images, [(0, 0), rows, columns, (0, 0)], mode=stage.mode, **fill)


def mirrored(size: int, margins: tuple[int, int], mode: str) -> np.ndarray:
    """Returns the index of each pixel of a padded axis in the axis without margins, which mirrors repeat forever."""
    indices = np.arange(-margins[0], size + margins[1])
    if mode == "symmetric":  # the edge pixel occurs twice
        return np.minimum(indices % (2 * size), 2 * size - 1 - indices % (2 * size))
    period = max(2 * (size - 1), 1)  # an axis of one pixel repeats it
    return np.minimum(indices % period, period - indices % period) % size


@entered(APPLIES, "pad")
def _pad(stage: Stage, images: np.ndarray, drawn: Drawn) -> np.ndarray:
    missing = stage.height - images.shape[1], stage.width - images.shape[2]
    rows = (missing[0] // 2, (missing[0] + 1) // 2) if stage.height else (stage.top, stage.bottom)
    columns = (missing[1] // 2, (missing[1] + 1) // 2) if stage.width else (stage.left, stage.right)
    return padded(images, rows, columns, stage)


@entered(APPLIES, "center_crop")
def _center_crop(stage: Stage, images: np.ndarray, drawn: Drawn) -> np.ndarray:
    height, width = images.shape[1:3]
    rows, columns = stage.height or min(height, width), stage.width or min(height, width)
    top, left = (height - rows) // 2, (width - columns) // 2
    return images[:, top : top + rows, left : left + columns]


@entered(DRAWS, "random_crop")
def _places(stage: Stage, keys: np.ndarray, spec: Any) -> dict[str, np.ndarray]:
    room = spec.height - (stage.height or spec.height), spec.width - (stage.width or spec.width)
    top, left = (randomness.below(keys, draw, room[draw] + 2 * stage.padding + 1) for draw in (0, 1))
    return {"top": top, "left": left}


@entered(APPLIES, "random_crop")
def _random_crop(stage: Stage, images: np.ndarray, drawn: Drawn) -> np.ndarray:
    rows, columns = stage.height or images.shape[1], stage.width or images.shape[2]
    images = padded(images, (stage.padding,) * 2, (stage.padding,) * 2, stage) if stage.padding else images
    down, across = drawn["top"][:, None] + np.arange(rows), drawn["left"][:, None] + np.arange(columns)
    return images[np.arange(len(images))[:, None, None], down[:, :, None], across[:, None]]


@entered(DRAWS, "cutout")
def _centres(stage: Stage, keys: np.ndarray, spec: Any) -> dict[str, np.ndarray]:
    return {"centre_y": randomness.uniform(keys, 0), "centre_x": randomness.uniform(keys, 1)}


@entered(APPLIES, "cutout")
def _cutout(stage: Stage, images: np.ndarray, drawn: Drawn) -> np.ndarray:
    """DeVries and Taylor, arXiv:1708.04552."""
    height, width = np.float32(images.shape[1:3])
    # The product may round up to the length itself, which is one too far.
    top = np.minimum(np.floor(drawn["centre_y"] * height), height - 1) - stage.size // 2
    left = np.minimum(np.floor(drawn["centre_x"] * width), width - 1) - stage.size // 2
    return painted(images, top, top + stage.size, left, left + stage.size, stage.value)


@entered(DRAWS, "random_erasing")
def _rectangles(stage: Stage, keys: np.ndarray, spec: Any) -> dict[str, np.ndarray]:
    low, high = stage.ratio
    ratios = np.float32(low * (high / low) ** ((np.arange(4096) + 0.5) / 4096))
    return {
        "erase": randomness.bernoulli(keys, 0, stage.probability),
        "area": randomness.uniform(keys, 1, *stage.scale),
        "ratio": ratios[randomness.below(keys, 2, 4096)],
        "top": randomness.uniform(keys, 3),
        "left": randomness.uniform(keys, 4),
    }


@entered(APPLIES, "random_erasing")
def _random_erasing(stage: Stage, images: np.ndarray, drawn: Drawn) -> np.ndarray:
    """Zhong et al., arXiv:1708.04896."""
    height, width = np.float32(images.shape[1:3])
    area, ratio = drawn["area"] * height * width, drawn["ratio"]
    tall = np.minimum(np.rint(np.sqrt(area * ratio)), height)
    wide = np.minimum(np.rint(np.sqrt(area / ratio)), width)
    top = np.minimum(np.floor(drawn["top"] * (height - tall + 1)), height - tall)
    left = np.minimum(np.floor(drawn["left"] * (width - wide + 1)), width - wide)
    return painted(images, top, top + tall * drawn["erase"], left, left + wide, stage.value)


def painted(images: np.ndarray, top: Any, bottom: Any, left: Any, right: Any, value: float) -> np.ndarray:
    return np.where(inside(images, top, bottom, left, right), np.array(value).astype(images.dtype), images)


def inside(images: np.ndarray, top: Any, bottom: Any, left: Any, right: Any) -> np.ndarray:
    """bool [batch, H, W, 1]: pixels in the rectangles, of [batch] each, bottom and right just outside."""
    rows, columns = (np.arange(length) for length in images.shape[1:3])
    in_rows = (rows >= top[:, None]) & (rows < bottom[:, None])
    in_columns = (columns >= left[:, None]) & (columns < right[:, None])
    return in_rows[:, :, None, None] & in_columns[:, None, :, None]
