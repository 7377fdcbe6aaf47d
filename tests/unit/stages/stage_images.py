"""Images, draws and oracles that several tests of stages use."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from tfhet.stages import ImageSpec, Stage, parse, randomness


def noise(
    dtype: str = "uint8", height: int = 20, width: int = 28, channels: int = 3, count: int = 6, low: int = 0
) -> tf.Tensor:
    """Uniform levels from `low` to 255, as uint8 or as float32 of the same values."""
    return tf.cast(np.random.default_rng(2).integers(low, 256, (count, height, width, channels)), dtype)


def uint8(height: int | None = 20, width: int | None = 28, channels: int = 3) -> ImageSpec:
    return ImageSpec(height, width, channels, "uint8", 0.0, 255.0)


def float32(low: float, high: float, height: int | None = 8, width: int | None = 8, channels: int = 3) -> ImageSpec:
    return ImageSpec(height, width, channels, "float32", low, high)


def one(text: str) -> Stage:
    """The stage that the text declares."""
    (stage,) = parse(text)
    return stage


def keys(stage: Stage, count: int) -> tf.Tensor:
    """uint64 [count]: keys of the examples with ids from 0."""
    return randomness.keys(3, stage.name, 0, 0, tf.range(count, dtype=tf.int64))


def draws(stage: Stage, count: int, spec: ImageSpec | None = None) -> dict[str, tf.Tensor]:
    return stage.parameters(keys(stage, count), spec or uint8())


def by_pillow(batch: np.ndarray, change: Callable[[Image.Image], Image.Image]) -> np.ndarray:
    """The change of each image of uint8 [batch, H, W, 1 or 3]."""
    squeezed = batch[..., 0] if batch.shape[-1] == 1 else batch
    return np.reshape([np.asarray(change(Image.fromarray(image))) for image in squeezed], batch.shape)


def drawing(layer: tf.keras.layers.Layer, *values: np.ndarray) -> tf.keras.layers.Layer:
    """Makes a random layer of Keras 2 or 3 draw these values, in this order.

    Args:
        values: float32 [batch] each. Angles are in radians.
    """
    is_keras_3 = hasattr(layer, "backend")
    if is_keras_3 and isinstance(layer, tf.keras.layers.RandomRotation):
        values = tuple(np.rad2deg(value) for value in values)
    following = iter(values)

    def uniform(shape: Any, *_: Any, **__: Any) -> tf.Tensor:
        return tf.reshape(tf.constant(next(following)), shape)

    if is_keras_3:
        layer.backend.random = SimpleNamespace(uniform=uniform)
    else:
        layer._random_generator.random_uniform = uniform
    return layer


def addons() -> Any:
    """TensorFlow Addons; the test is skipped if it is not installed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("tensorflow_addons")
