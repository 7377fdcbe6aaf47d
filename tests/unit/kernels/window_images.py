"""JPEG files of all kinds, windows of them by the compiled core, and the same windows in float64."""

from __future__ import annotations

import io

import numpy as np
from PIL import Image

from tfhet import stages
from tfhet.stages import ImageSpec


def picture(rows: int, columns: int, seed: int = 0) -> np.ndarray:
    """Colours that change smoothly, with edges: what smoothing of colours shows in."""
    random = np.random.default_rng(seed)
    small = random.integers(0, 256, (max(2, rows // 12), max(2, columns // 12), 3), np.uint8)
    image = np.asarray(Image.fromarray(small).resize((columns, rows), Image.Resampling.BICUBIC))
    image = image + random.normal(0, 4, (rows, columns, 3))
    image[rows // 3 : rows // 2, columns // 4 : columns // 2] = (250, 20, 40)
    return np.clip(image, 0, 255).astype(np.uint8)


def saved(image: np.ndarray, kind: str, mode: str = "RGB", **options) -> bytes:
    file = io.BytesIO()
    Image.fromarray(image).convert(mode).save(file, kind, **options)
    return file.getvalue()


def jpeg(rows: int = 93, columns: int = 141, mode: str = "RGB", seed: int = 0, **options) -> bytes:
    return saved(picture(rows, columns, seed), "JPEG", mode, **{"quality": 92, **options})


def cut(images, boxes, height=32, width=24, *, flips=0, antialias=False, decode="decode(accurate=True); ", fuse=True):
    """Boxes (top, left, rows, columns) of images or files, resized and flipped."""
    decode = "" if isinstance(images, np.ndarray) else decode
    text = f"{decode}random_resized_crop({height}, {width}, antialias={antialias}); random_flip()"
    spec = ImageSpec.of(images) if isinstance(images, np.ndarray) else ImageSpec.of_files()
    given = np.zeros((len(images), 5))
    given[:, :4], given[:, 4] = np.reshape(boxes, (-1, 4)), flips
    return stages.compile(text, fuse=fuse).program(spec).segments[0].chain.run(images, given=given)


def whole(content: bytes, channels: int = 3) -> np.ndarray:
    image = Image.open(io.BytesIO(content))
    if channels == 1:
        image.draft("L", image.size)
    found = np.asarray(image.convert("L" if channels == 1 else "RGB"))
    return found.reshape(*found.shape[:2], channels)


def resized(image: np.ndarray, box, height=32, width=24, antialias=False) -> np.ndarray:
    """The box, which may be fractional, in float64, by triangles; its own edge is repeated beyond it."""

    def weights(size: int, begin: float, length: float, count: int) -> np.ndarray:
        step, low, high = length / count, np.floor(begin), np.ceil(begin + length)
        centres = begin + (np.arange(count) + 0.5) * step
        if not antialias:
            centres = np.clip(centres, low + 0.5, high - 0.5)
        pixels = np.arange(size) + 0.5
        found = np.maximum(0, 1 - np.abs(pixels - centres[:, None]) / (max(step, 1) if antialias else 1))
        found *= (pixels > low) & (pixels < high)
        return found / found.sum(axis=1, keepdims=True)

    top, left, rows, columns = box
    down, across = weights(image.shape[0], top, rows, height), weights(image.shape[1], left, columns, width)
    return np.stack([down @ plane @ across.T for plane in np.moveaxis(np.float64(image), 2, 0)], axis=2)


def assert_rounded(ours: np.ndarray, exact: np.ndarray) -> None:
    assert ours.dtype == np.uint8
    assert np.abs(ours - exact).max() < 0.502


KINDS = {
    "4:2:0": {"subsampling": 2},
    "4:2:2": {"subsampling": 1},
    "4:4:4": {"subsampling": 0},
    "progressive": {"progressive": True},
    "optimised": {"optimize": True, "quality": 60},
    "restarts": {"restart_marker_blocks": 3},
    "grey": {"mode": "L"},
}
