from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image, ImageOps

from tfhet.stages import Autocontrast

pytestmark = pytest.mark.usefixtures("backend")


def images(channels: int = 3) -> np.ndarray:
    """Noise between bounds that differ by image and channel, two neighbouring levels, one level, and the full range."""
    rng, size = np.random.default_rng(1), (21, 13, channels)
    batch = [rng.integers(low, high, size) + 3 * np.arange(channels) for low, high in ((10, 60), (120, 249), (50, 52))]
    batch += [np.full(size, 0), np.full(size, 255), np.full(size, 90), rng.integers(0, 2, size) * 255]
    return np.stack(batch).astype(np.uint8)


def exact(batch: np.ndarray) -> np.ndarray:
    low, high = (np.float64(bound(batch, axis=(1, 2), keepdims=True)) for bound in (np.min, np.max))
    return np.where(high > low, (batch - low) * 255 / np.maximum(high - low, 1), batch)


@pytest.mark.parametrize("channels", [1, 3])
def test_uint8_images_are_stretched_and_rounded_to_the_nearest_level(channels):
    ours = Autocontrast().apply(tf.constant(images(channels)), {})
    assert ours.dtype == tf.uint8
    assert np.abs(ours.numpy() - exact(images(channels))).max() <= 0.5 + 1e-4


@pytest.mark.parametrize("channels", [1, 3])
def test_uint8_images_are_those_of_pillow_but_for_the_fraction_that_it_cuts_off(channels):
    batch = images(channels)
    ours = Autocontrast().apply(tf.constant(batch), {}).numpy()
    theirs = np.stack([np.asarray(ImageOps.autocontrast(Image.fromarray(image.squeeze()))) for image in batch])
    differences = np.int32(ours) - theirs.reshape(batch.shape)
    assert differences.min() >= 0
    assert differences.max() <= 1


def test_float_images_are_stretched_to_0_to_1():
    ours = Autocontrast().apply(tf.constant(images() / 255, tf.float32), {})
    np.testing.assert_allclose(ours, exact(images()) / 255, atol=2e-5)
