from __future__ import annotations

import warnings

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image, ImageOps

from tfhet.stages import Equalize

pytestmark = pytest.mark.usefixtures("backend")


def images(height: int, width: int, channels: int = 3) -> np.ndarray:
    """Dark noise, bright noise, few levels, one level, two levels, a ramp."""
    rng, size = np.random.default_rng(1), (height, width, channels)
    ramp = np.broadcast_to(np.linspace(0, 255, width)[np.newaxis, :, np.newaxis], size)
    batch = [
        rng.normal(60, 20, size),
        rng.normal(200, 60, size),
        rng.integers(3, 9, size) * 20,
        np.full(size, 77),
        rng.integers(0, 2, size) * 255,
        ramp,
    ]
    return np.clip(np.stack(batch), 0, 255).astype(np.uint8)


def by_pillow(batch: np.ndarray) -> np.ndarray:
    equalized = [
        np.asarray(ImageOps.equalize(Image.fromarray(np.squeeze(image, -1) if grey else image)))
        for image in batch
        for grey in [batch.shape[-1] == 1]
    ]
    return np.stack(equalized).reshape(batch.shape)


@pytest.mark.parametrize(("height", "width"), [(33, 47), (5, 3), (16, 17), (64, 64), (120, 81)])
@pytest.mark.parametrize("channels", [1, 3])
def test_images_are_those_of_pillow_bit_for_bit(height, width, channels):
    batch = images(height, width, channels)
    ours = Equalize().apply(tf.constant(batch), {})
    assert ours.dtype == tf.uint8
    assert (ours.numpy() == by_pillow(batch)).all()


def test_images_are_those_of_addons_bit_for_bit():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        addons = pytest.importorskip("tensorflow_addons")
    batch = tf.constant(images(33, 47))
    assert (Equalize().apply(batch, {}).numpy() == addons.image.equalize(batch).numpy()).all()


def test_float_images_are_those_of_their_nearest_levels():
    batch = images(33, 47)
    shifted = np.clip(batch / 255 + np.random.default_rng(2).uniform(-0.4, 0.4, batch.shape) / 255, 0, 1)
    ours = Equalize().apply(tf.constant(shifted, tf.float32), {})
    np.testing.assert_allclose(ours, by_pillow(batch) / 255, atol=1e-6)
