from __future__ import annotations

import warnings

import numpy as np
import pytest
import tensorflow as tf
from scipy import ndimage

from tfhet.stages import GaussianBlur

SCIPY_MODES = {"REFLECT": "mirror", "SYMMETRIC": "reflect"}
CASES = [(11, 0.8, "REFLECT"), (5, 1.5, "SYMMETRIC"), (3, 0.3, "REFLECT"), (1, 1.0, "REFLECT"), (7, 4.0, "SYMMETRIC")]


@pytest.fixture(scope="module")
def addons():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("tensorflow_addons")


def images(height: int = 32, width: int = 20) -> tf.Tensor:
    return tf.constant(np.random.default_rng(5).integers(0, 256, (16, height, width, 3)), tf.uint8)


def exact(batch: tf.Tensor, size: int, sigma: float, padding: str) -> np.ndarray:
    """The blur in float64, by scipy."""
    blur = np.float64(batch)
    for axis in (1, 2):
        blur = ndimage.gaussian_filter1d(blur, sigma, axis, mode=SCIPY_MODES[padding], radius=size // 2)
    return blur


@pytest.mark.parametrize(("size", "sigma", "padding"), CASES)
def test_float_images_are_blurred_as_by_scipy(size, sigma, padding):
    batch = images()
    ours = GaussianBlur(size, sigma, padding=padding).apply(tf.cast(batch, tf.float32), {})
    assert ours.dtype == tf.float32
    np.testing.assert_allclose(ours, exact(batch, size, sigma, padding), atol=2e-4)


@pytest.mark.parametrize(("size", "sigma", "padding"), CASES)
def test_uint8_images_come_out_as_the_exact_blur_cut_to_whole_levels(size, sigma, padding):
    batch = images()
    blur = exact(batch, size, sigma, padding)
    ours = GaussianBlur(size, sigma, padding=padding).apply(batch, {})
    assert ours.dtype == tf.uint8
    decided = np.abs(blur - np.rint(blur)) > 1e-3
    assert decided.mean() > 0.9 or size == 1
    assert (ours.numpy() == np.floor(blur))[decided].all()
    whole = np.abs(blur - np.rint(blur)) < 4e-5
    assert (ours.numpy() == np.rint(blur))[whole].all()


@pytest.mark.parametrize(("size", "sigma", "padding"), [*CASES, (4, 1.0, "REFLECT"), (6, 0.8, "SYMMETRIC")])
def test_uint8_images_come_out_as_from_addons_wherever_rounding_error_does_not_decide(addons, size, sigma, padding):
    batch = images()
    theirs = addons.image.gaussian_filter2d(batch, size, sigma, padding=padding).numpy()
    unrounded = addons.image.gaussian_filter2d(tf.cast(batch, tf.float32), size, sigma, padding=padding).numpy()
    ours = GaussianBlur(size, sigma, padding=padding).apply(batch, {}).numpy()
    decided = np.abs(unrounded - np.rint(unrounded)) > 1e-3
    assert (ours == theirs)[decided].all()
    assert np.abs(np.int32(ours) - theirs).max() <= 1
    assert (ours != theirs).mean() < 1e-3 or size == 1


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_the_addons_backend_is_addons_itself(addons, dtype):
    batch = tf.cast(images(), dtype)
    ours = GaussianBlur(5, 1.2, backend="addons").apply(batch, {})
    assert ours.dtype == batch.dtype
    assert (ours.numpy() == addons.image.gaussian_filter2d(batch, 5, 1.2).numpy()).all()


def test_a_plain_area_keeps_its_grey_level_at_all_256_of_them():
    levels = tf.tile(tf.cast(tf.range(256), tf.uint8)[:, None, None, None], [1, 32, 32, 3])
    for stage in (GaussianBlur(), GaussianBlur(3, 1.0), GaussianBlur(31, 6.0, padding="SYMMETRIC")):
        assert (stage.apply(levels, {}).numpy() == levels.numpy()).all()


def test_blurring_before_or_behind_rescaling_differs_by_less_than_one_grey_level():
    batch = images()
    before = GaussianBlur().apply(tf.cast(batch, tf.float32) / 255.0, {}).numpy()
    behind = GaussianBlur().apply(batch, {}).numpy() / 255.0
    assert np.abs(before - behind).max() < 1 / 255
