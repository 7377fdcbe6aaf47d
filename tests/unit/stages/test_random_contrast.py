from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tfhet.errors import UsageError
from tfhet.stages import ImageSpec, RandomContrast, randomness

pytestmark = pytest.mark.usefixtures("backend")

SPEC = ImageSpec(9, 7, 3, "uint8", 0.0, 255.0)
FACTORS = np.float32([0.0, 0.4, 1.0, 1.3, 2.5, 20.0])


def images(channels: int = 3) -> np.ndarray:
    return np.random.default_rng(1).integers(0, 256, (6, 9, 7, channels)).astype(np.uint8)


@pytest.mark.parametrize("channels", [1, 3])
def test_float_images_become_those_of_tf_image_clipped(channels):
    batch = tf.constant(images(channels), tf.float32) / 255.0
    ours = RandomContrast().apply(batch, {"contrast": tf.constant(FACTORS)})
    theirs = [tf.clip_by_value(tf.image.adjust_contrast(batch[i], FACTORS[i]), 0, 1) for i in range(6)]
    np.testing.assert_allclose(ours, theirs, atol=1e-5)


@pytest.mark.parametrize("channels", [1, 3])
def test_uint8_images_are_rounded_to_the_nearest_level(channels):
    batch = images(channels)
    ours = RandomContrast().apply(tf.constant(batch), {"contrast": tf.constant(FACTORS)})
    mean = batch.mean(axis=(1, 2), keepdims=True)
    exact = np.clip((batch - mean) * np.float64(FACTORS)[:, None, None, None] + mean, 0, 255)
    assert ours.dtype == tf.uint8
    assert np.abs(ours.numpy() - exact).max() <= 0.5 + 1e-3


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_a_factor_of_one_changes_nothing(dtype):
    batch = tf.cast(images(), dtype) if dtype == "uint8" else tf.constant(images(), tf.float32) / 255.0
    same = RandomContrast().apply(batch, {"contrast": tf.ones([6])})
    assert (same.numpy() == batch.numpy()).all()


def test_factors_are_uniform_and_the_same_in_any_batch():
    keys = randomness.keys(3, "random_contrast", 0, 0, tf.range(20_000, dtype=tf.int64))
    stage = RandomContrast(0.2, 1.8)
    drawn = stage.parameters(keys, SPEC)["contrast"].numpy()
    assert 0.2 <= drawn.min() < 0.21
    assert 1.79 < drawn.max() <= 1.8
    assert abs(drawn.mean() - 1.0) < 4 * 0.8 / np.sqrt(3 * 20_000)
    assert (stage.parameters(keys[70:75], SPEC)["contrast"].numpy() == drawn[70:75]).all()


@pytest.mark.parametrize("factors", [(-0.1, 1.0), (1.2, 0.8), (0.0, float("inf"))])
def test_factors_that_make_no_interval_are_refused(factors):
    with pytest.raises(UsageError, match="random_contrast: (lower|upper) is (at least 0|finite|at most upper), not"):
        RandomContrast(*factors)
