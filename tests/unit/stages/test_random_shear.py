"""Shearing against Addons and scipy."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import tensorflow as tf
from scipy import ndimage

from tfhet.errors import UsageError
from tfhet.stages import ImageSpec, RandomShear, randomness

pytestmark = pytest.mark.usefixtures("backend")

SPEC = ImageSpec(20, 28, 3, "uint8", 0.0, 255.0)
SHEARS = np.float32([-1.0, -0.25, 0.0, 0.1, 0.4, 1.0])
SCIPY_MODES = {"reflect": "reflect", "constant": "grid-constant", "nearest": "nearest"}


def images(dtype: str = "float32", height: int = 20, width: int = 28, channels: int = 3) -> tf.Tensor:
    return tf.cast(np.random.default_rng(2).integers(0, 256, (6, height, width, channels)), dtype)


@pytest.mark.parametrize("fill_mode", SCIPY_MODES)
@pytest.mark.parametrize(("height", "width", "channels"), [(20, 28, 3), (21, 9, 1)])
def test_shearing_equals_scipy_within_float_rounding(fill_mode, height, width, channels):
    batch = images("float32", height, width, channels)
    ours = RandomShear(1, fill_mode, 9.0).apply(batch, {"shear": tf.constant(SHEARS)}).numpy()
    for index, shear in enumerate(np.float64(SHEARS)):
        matrix = np.array([[1.0, 0.0], [shear, 1.0]])  # of (y, x)
        centre = (np.array([height, width]) - 1) / 2
        for channel in range(channels):
            plane = np.float64(batch[index, ..., channel])
            offset = centre - matrix @ centre
            expected = ndimage.affine_transform(plane, matrix, offset, order=1, mode=SCIPY_MODES[fill_mode], cval=9.0)
            np.testing.assert_allclose(ours[index, ..., channel], expected, atol=0.02)


def test_it_is_the_shear_of_addons_but_about_the_middle_row():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        addons = pytest.importorskip("tensorflow_addons")
    batch = images("uint8", 21, 40)  # the middle row is row 10: whole slopes slide the rest by whole columns
    for slope in (-1, 1):
        ours = RandomShear(1).apply(batch, {"shear": tf.fill([6], float(slope))}).numpy()
        for index in range(6):
            theirs = addons.image.shear_x(batch[index], float(slope), 0).numpy()
            # About the top row, Addons' content lies 10 * slope columns further left.
            if slope > 0:
                assert (ours[index, :, 10:30] == theirs[:, :20]).all()
            else:
                assert (ours[index, :, 10:30] == theirs[:, 20:]).all()


def test_a_positive_slope_moves_what_is_below_the_middle_to_the_left():
    batch = images("uint8", 5, 12)
    ours = RandomShear().apply(batch, {"shear": tf.fill([6], 1.0)}).numpy()
    for row in range(5):
        assert (ours[:, row, 2:10] == np.roll(batch[:, row], 2 - row, axis=1)[:, 2:10]).all()


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_a_factor_of_zero_leaves_every_image_as_it_is(dtype):
    stage = RandomShear(0)
    keys = randomness.keys(0, stage.name, 0, 0, tf.range(6, dtype=tf.int64))
    assert (stage.apply(images(dtype), stage.parameters(keys, SPEC)).numpy() == images(dtype).numpy()).all()


def test_uint8_images_are_rounded_and_do_not_darken():
    drawn = {"shear": tf.constant(SHEARS)}
    unrounded = RandomShear().apply(images(), drawn).numpy()
    rounded = RandomShear().apply(images("uint8"), drawn)
    assert rounded.dtype == tf.uint8
    assert (rounded.numpy() == np.rint(unrounded)).all()


def test_slopes_are_drawn_evenly_and_for_each_example_alone():
    from scipy import stats

    stage, ids = RandomShear(0.3), tf.range(20_000, dtype=tf.int64)
    drawn = stage.parameters(randomness.keys(3, stage.name, 0, 0, ids), SPEC)
    assert set(drawn) == {"shear"}
    assert stats.kstest(drawn["shear"].numpy(), stats.uniform(-0.3, 0.6).cdf).pvalue > 0.01
    alone = stage.parameters(randomness.keys(3, stage.name, 0, 0, ids[5:6]), SPEC)
    assert alone["shear"].numpy()[0] == drawn["shear"].numpy()[5]


def test_what_is_out_of_range_is_refused():
    with pytest.raises(UsageError, match="random_shear: factor is from 0 to 1, not 1.2"):
        RandomShear(1.2)
    with pytest.raises(UsageError, match="fill_mode of stage random_shear 'mirror'"):
        RandomShear(fill_mode="mirror")
    with pytest.raises(UsageError, match="random_shear: fill_value -1 is outside"):
        RandomShear(fill_mode="constant", fill_value=-1).spec(SPEC)


def test_only_a_constant_fill_forbids_a_rescale_to_move_past():
    assert RandomShear().commutes_with_rescale
    assert not RandomShear(fill_mode="constant").commutes_with_rescale
