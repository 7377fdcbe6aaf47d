"""Stages that change colours."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from oracle import randomness, tone
from oracle.table import APPLIES, DRAWS, FULL, Drawn, entered
from tfhet.stages import Stage

LUMA = np.float32([19595.0, 38470.0, 7471.0])
"""Weights of red, green and blue in grey, in 65536ths: ITU-R 601-2 as rounded for Pillow's mode L."""


def mixed(images: np.ndarray, matrices: Any = None, offsets: Any = None, turns: Any = None) -> np.ndarray:
    """Colours (rows) times matrices [batch, 3, 3], plus offsets [batch, 3]; then the hue turned by turns [batch]."""
    values = images.astype(np.float32)
    if matrices is not None:
        values = values @ matrices[:, None]
    if offsets is not None:
        values = values + offsets[:, None, None]
    if turns is not None:
        values = np.clip(values, 0.0, np.float32(FULL[images.dtype.name]))
        hsv = tf.image.rgb_to_hsv(values).numpy()
        hsv[..., 0] = np.mod(hsv[..., 0] + turns[:, None, None], np.float32(1.0))
        values = tf.image.hsv_to_rgb(hsv).numpy()
    return tone.restored(values, images.dtype)


@entered(DRAWS, "random_hue")
def _turns(stage: Stage, keys: np.ndarray, spec: Any) -> dict[str, np.ndarray]:
    return {"hue": randomness.uniform(keys, 0, -stage.delta, stage.delta)}


@entered(APPLIES, "random_hue")
def _turned(stage: Stage, images: np.ndarray, drawn: Drawn) -> np.ndarray:
    """`tf.image.random_hue`."""
    return images if images.shape[3] == 1 else mixed(images, turns=drawn["hue"])


@entered(APPLIES, "grayscale")
def _grey(stage: Stage, images: np.ndarray, drawn: Drawn) -> np.ndarray:
    """Pillow's `convert("L")`."""
    if images.shape[3] == 1:
        return np.repeat(images, stage.channels, axis=3)
    if images.dtype == np.uint8:
        grey = np.uint8((images.astype(np.float32) @ LUMA + np.float32(32768.0)) * np.float32(1.0 / 65536.0))
    else:
        grey = images @ (LUMA / np.float32(65536.0))
    return np.repeat(grey[..., None], stage.channels, axis=3)


@entered(DRAWS, "random_saturation")
def _factors(stage: Stage, keys: np.ndarray, spec: Any) -> dict[str, np.ndarray]:
    return {"saturation": randomness.uniform(keys, 0, stage.lower, stage.upper)}


@entered(APPLIES, "random_saturation")
def _saturated(stage: Stage, images: np.ndarray, drawn: Drawn) -> np.ndarray:
    """`tf.image.random_saturation`: saturation is (most - least) / most, so distances from the largest value grow."""
    if images.shape[3] == 1:
        return images
    values = images.astype(np.float32)
    most, least = values.max(axis=3, keepdims=True), values.min(axis=3, keepdims=True)
    limit = most / np.maximum(most - least, np.float32(1e-9))
    factor = np.minimum(drawn["saturation"][:, None, None, None], limit)
    return tone.restored(most - (most - values) * factor, images.dtype)


@entered(DRAWS, "color_jitter")
def _jitters(stage: Stage, keys: np.ndarray, spec: Any) -> dict[str, np.ndarray]:
    drawn = {}
    for draw, name in enumerate(("brightness", "contrast", "saturation")):
        if (most := getattr(stage, name)) > 0.0:
            drawn[name] = randomness.uniform(keys, draw, max(0.0, 1.0 - most), 1.0 + most)
    return {**drawn, "hue": randomness.uniform(keys, 3, -stage.hue, stage.hue)} if stage.hue > 0.0 else drawn


@entered(APPLIES, "color_jitter")
def jittered(stage: Stage | None, images: np.ndarray, drawn: Drawn) -> np.ndarray:
    """torchvision's ColorJitter and Pillow's ImageEnhance, in the order brightness, contrast, saturation, hue."""
    ones, colours = np.ones(len(images), np.float32), images.shape[3] == 3
    grey = LUMA / np.float32(65536.0) if colours else np.ones(1, np.float32)
    gain, added = drawn.get("brightness", ones), 0.0 * ones
    if "contrast" in drawn:
        mean = tone.of_channels(images, np.mean) @ grey
        added = (1.0 - drawn["contrast"]) * (gain * mean)
        gain = gain * drawn["contrast"]
    if not colours or not {"saturation", "hue"} & set(drawn):
        line = tone.Line.of(gain[:, None], added[:, None], 0.0, FULL[images.dtype.name])
        return tone.applied(line, images, images.dtype.name)
    own = drawn.get("saturation", ones)[:, None, None]
    matrices = (own * np.eye(3, dtype=np.float32) + (1.0 - own) * grey[:, None]) * gain[:, None, None]
    return mixed(images, matrices, np.repeat(added[:, None], 3, axis=1), drawn.get("hue"))
