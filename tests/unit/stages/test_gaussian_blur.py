from __future__ import annotations

import warnings

import numpy as np
import pytest
import tensorflow as tf
from scipy import ndimage

from tfhet.errors import UsageError
from tfhet.stages import GaussianBlur, ImageSpec
from tfhet.stages.filters import PADDINGS

pytestmark = pytest.mark.usefixtures("backend")

SCIPY_MODES = {"REFLECT": "mirror", "SYMMETRIC": "reflect", "CONSTANT": "constant"}
CASES = [
    (11, 0.8, "REFLECT"),
    (5, 1.5, "SYMMETRIC"),
    (3, 0.3, "REFLECT"),
    (1, 1.0, "REFLECT"),
    (7, 4.0, "SYMMETRIC"),
    (11, 0.8, "CONSTANT"),
    (9, 2.0, "CONSTANT"),
]


@pytest.fixture(scope="module")
def addons():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("tensorflow_addons")


def images(height: int = 32, width: int = 20, channels: int = 3, count: int = 16) -> tf.Tensor:
    return tf.constant(np.random.default_rng(5).integers(0, 256, (count, height, width, channels)), tf.uint8)


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


@pytest.mark.parametrize(
    ("size", "sigma"), [(11, 0.8), (5, 1.5), (3, 0.3), (1, 1.0), (7, 4.0), (4, 1.0), (6, 0.8), (20, 9.0)]
)
@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize(("height", "width", "channels", "count"), [(32, 20, 3, 16), (33, 21, 1, 1), (40, 57, 3, 4)])
def test_images_come_out_as_from_addons_wherever_rounding_error_does_not_decide(
    addons, size, sigma, padding, height, width, channels, count
):
    batch = images(height, width, channels, count)
    theirs = addons.image.gaussian_filter2d(batch, size, sigma, padding=padding).numpy()
    unrounded = addons.image.gaussian_filter2d(tf.cast(batch, tf.float32), size, sigma, padding=padding).numpy()
    stage = GaussianBlur(size, sigma, padding=padding)
    np.testing.assert_allclose(stage.apply(tf.cast(batch, tf.float32), {}), unrounded, rtol=1e-5, atol=3e-4)
    ours = stage.apply(batch, {}).numpy()
    decided = np.abs(unrounded - np.rint(unrounded)) > 1e-3
    assert (ours == theirs)[decided].all()
    brighter = np.int32(ours) - theirs
    assert brighter.min() >= 0
    assert brighter.max() <= 1
    assert (brighter > 0).mean() < 1e-3 or size == 1 or height * width * channels * count < 1000


def test_on_noise_one_level_in_thousands_differs_from_addons(addons):
    batch = images(64, 64, 3, 32)
    for padding in PADDINGS:
        theirs = addons.image.gaussian_filter2d(batch, 11, 0.8, padding=padding).numpy()
        assert (GaussianBlur(padding=padding).apply(batch, {}).numpy() != theirs).mean() < 3e-4


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


def test_taps_that_change_nothing_are_left_out_and_no_others():
    stage = GaussianBlur(11, 0.8)
    assert np.count_nonzero(stage.kept_weights()) == 9
    assert abs(stage.kept_weights() - stage.weights()).max() < 2e-9
    assert np.count_nonzero(GaussianBlur(11, 1.2).kept_weights()) == 11
    assert np.count_nonzero(GaussianBlur(2, 0.01).kept_weights()) == 1


@pytest.mark.parametrize(("padding", "least"), [("REFLECT", 6), ("SYMMETRIC", 5), ("CONSTANT", 1)])
def test_images_may_be_as_small_as_the_padding_allows(padding, least):
    stage = GaussianBlur(padding=padding)
    stage.spec(ImageSpec(least, least, 3, "uint8", 0, 255))
    batch = images(least, least)
    assert np.abs(stage.apply(batch, {}).numpy() - exact(batch, 11, 0.8, padding)).max() <= 1
    if least > 1:
        with pytest.raises(UsageError, match=f"needs images of at least {least} pixels, not {least - 1}"):
            stage.spec(ImageSpec(least, least - 1, 3, "uint8", 0, 255))


def test_only_a_fill_of_zeros_forbids_a_rescale_to_move_past():
    assert [GaussianBlur(padding=padding).commutes_with_rescale for padding in sorted(PADDINGS)] == [False, True, True]
