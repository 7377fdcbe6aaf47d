"""Decoding of files, and the stages that resize a window of each image: resize and the resized crops."""

from __future__ import annotations

import io
import math
from typing import Any

import numpy as np
import tensorflow as tf
from PIL import Image

from oracle import randomness
from oracle.table import APPLIES, DRAWS, WINDOWS, Drawn, entered, windows
from tfhet.stages import Stage

TRIES = 10
"""Boxes that random_resized_crop draws for each image; the first that fits is taken."""


@entered(APPLIES, "decode")
def decoded(stage: Stage, files: list[bytes], drawn: Drawn) -> list[np.ndarray]:
    """`tf.io.decode_image`, turned by the Exif orientation of JPEG and PNG files."""
    return [_turned(_pixels(stage, file), _orientation(file) if stage.upright else 1) for file in files]


def _pixels(stage: Stage, file: bytes) -> np.ndarray:
    if stage.accurate and file.startswith(b"\xff\xd8\xff"):
        return tf.io.decode_jpeg(file, channels=stage.channels, dct_method="INTEGER_ACCURATE").numpy()
    return tf.io.decode_image(file, channels=stage.channels, expand_animations=False).numpy()


def _orientation(file: bytes) -> int:
    with Image.open(io.BytesIO(file)) as image:
        return image.getexif().get(0x0112, 1)


def _turned(image: np.ndarray, orientation: int) -> np.ndarray:
    image = np.swapaxes(image, 0, 1) if orientation >= 5 else image
    image = image[:, ::-1] if orientation in (2, 3, 6, 7) else image
    return image[::-1] if orientation in (3, 4, 7, 8) else image


def resized(images: np.ndarray, parts: np.ndarray, flips: Any, stage: Stage) -> np.ndarray:
    """Resizes windows, float32 [1 or batch, 4], by triangles as in Pillow and `tf.image.resize(antialias=True)`.
    flips: bool [batch], whether left and right are exchanged, or None."""
    values, flips = images.astype(np.float32), np.zeros(1, bool) if flips is None else flips
    for axis, size in ((0, stage.height), (1, stage.width)):
        begin, length, limit = parts[:, axis, None], parts[:, 2 + axis, None], np.float32(images.shape[1 + axis])
        step = length / np.float32(size)
        centres = begin + (np.arange(size, dtype=np.float32) + np.float32(0.5)) * step - np.float32(0.5)
        low, high = np.zeros_like(begin), np.full_like(begin, limit)
        if stage.name != "resized_center_crop":  # the window's own edge is repeated beyond it
            low = np.clip(np.floor(begin + np.float32(1e-4)), 0, limit - 1)
            high = np.clip(np.ceil(begin + length - np.float32(1e-4)), low + 1, limit)
        if axis == 1:
            centres = np.where(flips[:, None], centres[:, ::-1], centres)
        support = np.maximum(step, np.float32(1.0)) if stage.antialias else np.float32([[1.0]])
        pixels = np.arange(images.shape[1 + axis], dtype=np.float32)
        centres = np.clip(centres, low - np.float32(0.5), high - np.float32(0.5))
        weights = np.maximum(1 - np.abs(pixels - centres[..., None]) / support[..., None], 0)
        weights = np.where((pixels >= low[..., None]) & (pixels < high[..., None]), weights, np.float32(0.0))
        weights /= weights.sum(axis=2, keepdims=True)
        if axis == 0:
            batch, height, width, channels = values.shape
            rows = weights @ values.reshape(batch, height, width * channels)
            values = rows.reshape(batch, size, width, channels)
        else:
            values = weights[:, None] @ values
    return values if images.dtype == np.float32 else np.clip(np.rint(values), 0, 255).astype(np.uint8)


@entered(APPLIES, "resize", "resized_center_crop", "random_resized_crop")
def resized_window(stage: Stage, images: Any, drawn: Drawn, flips: Any = None) -> np.ndarray:
    """Resizes the window of a stage. images: [batch, H, W, C], or a list of [H, W, C]."""
    if getattr(stage, "method", "bilinear") != "bilinear":
        values = tf.image.resize(images, [stage.height, stage.width], stage.method).numpy()
        return values if images.dtype == np.float32 else np.clip(np.rint(values), 0, 255).astype(np.uint8)
    if isinstance(images, np.ndarray):
        return resized(images, windows(stage, drawn, [images.shape[1:3]]), flips, stage)
    return _each_resized(images, _parts(stage, drawn, images), flips, stage)


def _parts(stage: Stage, drawn: Drawn, images: list[np.ndarray]) -> np.ndarray:
    return np.broadcast_to(windows(stage, drawn, [image.shape[:2] for image in images]), (len(images), 4))


def _each_resized(images: list[np.ndarray], parts: Any, flips: Any, stage: Stage) -> np.ndarray:
    flips = [False] * len(images) if flips is None else flips
    rows = zip(images, parts, flips, strict=True)
    return np.concatenate([resized(image[None], part[None], np.array([flip]), stage) for image, part, flip in rows])


def decoded_window(decode: Stage, stage: Stage, files: list[bytes], drawn: Drawn, flips: Any = None) -> np.ndarray:
    """Returns windows of image files, not rounded. A reduced JPEG has the pixels of `tf.io.decode_jpeg(ratio=...)`."""
    images = decoded(decode, files, {})
    parts = _parts(stage, drawn, images).copy()
    for at, (file, (height, width)) in enumerate(zip(files, [image.shape[:2] for image in images], strict=True)):
        by = max(
            (by for by in (1, 2, 4, 8) if np.all(parts[at, 2:] >= by * np.array([stage.height, stage.width]))),
            default=1,
        )
        if not decode.reduced or by == 1 or not file.startswith(b"\xff\xd8\xff"):
            continue
        method, turn = "INTEGER_ACCURATE" if decode.accurate else "", _orientation(file) if decode.upright else 1
        small = tf.io.decode_jpeg(file, channels=decode.channels, ratio=by, dct_method=method).numpy()
        images[at] = _turned(small, turn)
        parts[at] /= by
        # The last row or column of the file, which may be less than whole, is the first one of a mirrored image.
        beyond = np.array(images[at].shape[:2]) - np.array([height, width]) / by
        parts[at, :2] += beyond * [turn in (3, 4, 7, 8), turn in (2, 3, 6, 7)]
    return _each_resized([np.float32(image) for image in images], parts, flips, stage)


@entered(WINDOWS, "resize")
def _whole(stage: Stage, drawn: Drawn, sizes: np.ndarray) -> np.ndarray:
    return np.concatenate([0 * sizes, sizes], axis=1)


@entered(WINDOWS, "resized_center_crop")
def _middle(stage: Stage, drawn: Drawn, sizes: np.ndarray) -> np.ndarray:
    """torchvision's Resize(shorter) and CenterCrop."""
    shown = np.int32([stage.height, stage.width])
    scaled = stage.shorter * sizes // sizes.min(axis=1, keepdims=True)
    steps = np.float32(sizes) / np.float32(scaled)
    # Halves are rounded to even, as by Python's round.
    first = np.rint(np.float32(scaled - shown) / np.float32(2.0))
    return np.concatenate([first * steps, np.float32(shown) * steps], axis=1)


@entered(DRAWS, "random_resized_crop")
def _boxes(stage: Stage, keys: np.ndarray, spec: Any) -> dict[str, np.ndarray]:
    """`box`, int32 [batch, 4]; for images of different sizes `areas`, `ratios` and `places`, of which it is made."""
    tries, logs = np.arange(TRIES), (math.log(stage.ratio_low), math.log(stage.ratio_high))
    ratios = randomness.uniform(keys[:, None], TRIES + tries, *logs)
    drawn = {
        "areas": randomness.uniform(keys[:, None], tries, stage.scale_low, stage.scale_high),
        "ratios": np.float32(np.exp(np.float64(ratios))),
        "places": randomness.uniform(keys[:, None], 2 * TRIES + np.arange(2)),
    }
    return drawn if spec.ragged else {"box": np.int32(_first_fit(stage, drawn, np.int32([[spec.height, spec.width]])))}


@entered(WINDOWS, "random_resized_crop")
def _first_fit(stage: Stage, drawn: Drawn, sizes: np.ndarray) -> np.ndarray:
    """torchvision's loop, or its central crop where no box fits."""
    if "box" in drawn:
        return drawn["box"]
    rows, columns = np.float32(sizes[:, :1]), np.float32(sizes[:, 1:])
    areas, ratios = drawn["areas"] * (rows * columns), drawn["ratios"]
    heights, widths = np.rint(np.sqrt(areas / ratios)), np.rint(np.sqrt(areas * ratios))
    fits = (heights >= 1) & (heights <= rows) & (widths >= 1) & (widths <= columns)
    first = np.argmax(fits, axis=1)[:, None]
    tried = np.concatenate([np.take_along_axis(side, first, axis=1) for side in (heights, widths)], axis=1)
    room = np.float32(sizes) - tried
    tried = np.concatenate([np.floor(drawn["places"] * (room + 1)), tried], axis=1)
    tall = np.minimum(rows, np.maximum(1, np.rint(columns / np.float32(stage.ratio_low))))
    wide = np.minimum(columns, np.maximum(1, np.rint(rows * np.float32(stage.ratio_high))))
    central = np.concatenate([(rows - tall) // 2, (columns - wide) // 2, tall, wide], axis=1)
    return np.where(fits.any(axis=1, keepdims=True), tried, central)
