"""Filters against scipy, TensorFlow and Addons."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from scipy import ndimage
from stage_images import addons, noise, one, uint8

from tfhet.errors import UsageError
from tfhet.stages import Dilate, Erode, GaussianBlur
from tfhet.stages.filters import PADDINGS

SCIPY_MODES = {"REFLECT": "mirror", "SYMMETRIC": "reflect", "CONSTANT": "constant"}


def exact(batch: tf.Tensor, size: int, sigma: float, padding: str) -> np.ndarray:
    """The blur in float64, by scipy. The middle of an even filter is left of it, as in Addons."""
    places = np.arange(-size // 2 + 1, size // 2 + 1)
    weights, blur = np.exp(-(places**2) / (2 * sigma**2)), np.float64(batch)
    for axis in (1, 2):
        how = {"mode": SCIPY_MODES[padding], "origin": 0 if size % 2 else -1}
        blur = ndimage.correlate1d(blur, weights / weights.sum(), axis, **how)
    return blur


@pytest.mark.parametrize("shape", [(32, 28, 3), (16, 21, 1), (70, 300, 3), (17, 40, 4)])
@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize(
    ("size", "sigma"), [(11, 0.8), (5, 1.5), (3, 0.3), (1, 1.0), (7, 4.0), (4, 1.0), (6, 0.8), (20, 9.0), (31, 5.0)]
)
def test_blur_equals_scipy_and_truncates_uint8(size, sigma, padding, shape):
    stage, batch = GaussianBlur(size, sigma, padding=padding), noise("uint8", *shape, 2)
    blur = exact(batch, size, sigma, padding)
    floats = stage.apply(tf.cast(batch, tf.float32), {})
    assert floats.dtype == tf.float32
    np.testing.assert_allclose(floats, blur, atol=2e-4)
    levels = stage.apply(batch, {})
    assert levels.dtype == tf.uint8
    distance = np.abs(blur - np.rint(blur))
    assert (levels.numpy() == np.floor(blur))[distance > 1e-3].all()
    assert (levels.numpy() == np.rint(blur))[distance < 4e-5].all()


@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize(("size", "sigma"), [(11, 0.8), (1, 1.0), (4, 1.0), (6, 0.8), (20, 9.0)])
def test_blur_equals_addons_but_for_rounding(size, sigma, padding):
    blur, stage = addons().image.gaussian_filter2d, GaussianBlur(size, sigma, padding=padding)
    for batch in (noise(height=33, width=21, channels=1, count=1), noise(height=32, count=16)):
        theirs = blur(batch, size, sigma, padding=padding).numpy()
        unrounded = blur(tf.cast(batch, tf.float32), size, sigma, padding=padding).numpy()
        np.testing.assert_allclose(stage.apply(tf.cast(batch, tf.float32), {}), unrounded, rtol=1e-5, atol=3e-4)
        brighter = np.int32(stage.apply(batch, {})) - theirs
        assert (brighter == 0)[np.abs(unrounded - np.rint(unrounded)) > 1e-3].all()
        assert brighter.min() >= 0 and brighter.max() <= 1
        assert (brighter > 0).mean() < 1e-3 or size == 1 or brighter.size < 1000


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_addons_backend_is_addons(dtype):
    theirs = addons().image.gaussian_filter2d(noise(dtype), 5, 1.2)
    ours = GaussianBlur(5, 1.2, backend="addons").apply(noise(dtype), {})
    assert ours.dtype == dtype
    np.testing.assert_array_equal(ours, theirs)


def test_blurred_plain_area_keeps_all_256_levels():
    levels = tf.tile(tf.cast(tf.range(256), tf.uint8)[:, None, None, None], [1, 32, 32, 3])
    for stage in (GaussianBlur(), GaussianBlur(3, 1.0), GaussianBlur(31, 6.0, padding="SYMMETRIC")):
        np.testing.assert_array_equal(stage.apply(levels, {}), levels)


@pytest.mark.parametrize(("padding", "least"), [("REFLECT", 6), ("SYMMETRIC", 5), ("CONSTANT", 1)])
def test_blur_takes_the_smallest_images_it_states(padding, least):
    stage, batch = GaussianBlur(padding=padding), noise(height=least, width=least)
    stage.spec(uint8(least, least))
    assert np.abs(stage.apply(batch, {}).numpy() - exact(batch, 11, 0.8, padding)).max() <= 1
    with pytest.raises(UsageError, match=rf"gaussian_blur.* {least} .* {least - 1}$"):
        stage.spec(uint8(least, least - 1))


@pytest.mark.parametrize("size", [1, 2, 3, 4, 7, 8, 29])
@pytest.mark.parametrize(
    ("kind", "theirs"), [(Dilate, tf.nn.dilation2d), (Erode, tf.nn.erosion2d)], ids=["dilate", "erode"]
)
def test_morphology_equals_tensorflow(kind, theirs, size):
    for shape in ((17, 12, 3), (1, 1, 3), (1, 40, 1), (3, 2, 4), (60, 1, 3), (30, 90, 2)):
        for batch in (noise("uint8", *shape, 2), noise("float32", *shape, 2) / 16 - 8):
            ours = kind(size).apply(batch, {})
            assert ours.dtype == batch.dtype
            floats, flat = tf.cast(batch, tf.float32), tf.zeros([size, size, shape[2]])
            np.testing.assert_array_equal(ours, theirs(floats, flat, [1] * 4, "SAME", "NHWC", [1] * 4))


def test_sharpening_leaves_images_of_two_pixels():
    batch = noise(height=2, width=9)
    np.testing.assert_array_equal(one("sharpen(3)").apply(batch, {}), batch)
