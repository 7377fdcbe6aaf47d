from __future__ import annotations

import warnings

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image, ImageEnhance
from scipy import ndimage

from tfhet.errors import UsageError
from tfhet.stages import ImageSpec, Sharpen

pytestmark = pytest.mark.usefixtures("backend")

AMOUNTS = [0.0, 0.5, 1.0, 1.7, 2.0, 5.0]
SMOOTH = np.array([[1, 1, 1], [1, 5, 1], [1, 1, 1]])[np.newaxis, :, :, np.newaxis] / 13


def images(channels: int = 3, height: int = 19, width: int = 14) -> np.ndarray:
    return np.random.default_rng(3).integers(0, 256, (5, height, width, channels)).astype(np.uint8)


def exact(batch: np.ndarray, amount: float) -> np.ndarray:
    values = np.float64(batch)
    smooth = values.copy()
    smooth[:, 1:-1, 1:-1] = ndimage.convolve(values, SMOOTH)[:, 1:-1, 1:-1]
    return np.clip(amount * values + (1 - amount) * smooth, 0, 255)


@pytest.mark.parametrize("amount", AMOUNTS)
@pytest.mark.parametrize("channels", [1, 3])
def test_images_are_blended_with_their_smooth_form_and_rounded_once(amount, channels):
    batch = images(channels)
    ours = Sharpen(amount).apply(tf.constant(batch), {})
    assert ours.dtype == tf.uint8
    assert np.abs(ours.numpy() - exact(batch, amount)).max() <= 0.5 + 1e-3
    as_float = Sharpen(amount).apply(tf.constant(batch / 255, tf.float32), {})
    np.testing.assert_allclose(as_float, exact(batch, amount) / 255, atol=1e-5)


@pytest.mark.parametrize("amount", AMOUNTS)
def test_uint8_images_are_those_of_pillow_and_addons_but_for_their_roundings(amount):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        addons = pytest.importorskip("tensorflow_addons")
    batch = images()
    ours = np.int32(Sharpen(amount).apply(tf.constant(batch), {}))
    pillow = [np.asarray(ImageEnhance.Sharpness(Image.fromarray(image)).enhance(amount)) for image in batch]
    # Pillow rounds smooth(x) (half a level, enlarged by the blend) and cuts the result; the addon does the reverse.
    assert np.abs(ours - np.stack(pillow)).max() <= 1 + 0.5 * abs(1 - amount)
    assert np.abs(ours - np.int32(addons.image.sharpness(tf.constant(batch), amount))).max() <= 1 + abs(1 - amount)


def test_float_images_are_those_of_addons_before_it_rounds_them():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        addons = pytest.importorskip("tensorflow_addons")
    # The addon rounds float images too, so it gets them in 0..255.
    theirs = addons.image.sharpness(tf.constant(images(), tf.float32), 1.7)
    ours = Sharpen(1.7).apply(tf.constant(images() / 255, tf.float32), {})
    assert np.abs(255 * ours.numpy() - theirs.numpy()).max() <= 0.5 + 1e-3


def test_images_of_two_pixels_are_all_edge_and_stay_and_smaller_ones_are_refused():
    batch = images(3, 2, 9)
    assert (Sharpen(3.0).apply(tf.constant(batch), {}).numpy() == batch).all()
    with pytest.raises(UsageError, match="sharpen: needs images of at least 2 pixels each way, not 1"):
        Sharpen().spec(ImageSpec(8, 1, 3, "uint8", 0.0, 255.0))


def test_a_negative_amount_is_refused():
    with pytest.raises(UsageError, match="sharpen: amount is at least 0, not -0.5"):
        Sharpen(-0.5)
