from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from tfhet.errors import UsageError
from tfhet.stages import GaussianNoise, ImageSpec, randomness
from tfhet.stages.tone import normals

pytestmark = pytest.mark.usefixtures("backend")

SPEC = ImageSpec(33, 41, 3, "float32", 0.0, 1.0)


def keys(count: int) -> tf.Tensor:
    return randomness.keys(5, "gaussian_noise", 0, 0, tf.range(count, dtype=tf.int64))


def test_what_is_added_is_normal_with_the_deviation_asked_for():
    grey = tf.fill([64, 33, 41, 3], 0.5)
    stage = GaussianNoise(0.05)
    noise = (stage.apply(grey, stage.parameters(keys(64), SPEC)) - 0.5).numpy().ravel() / 0.05
    assert abs(noise.mean()) < 4 / np.sqrt(noise.size)
    assert abs(noise.std() - 1) < 4 / np.sqrt(2 * noise.size)
    assert stats.kstest(noise, "norm").pvalue > 0.01


def test_the_values_of_an_image_and_the_images_are_independent():
    rows = normals(keys(40), tf.constant(4000)).numpy()
    assert np.abs(np.corrcoef(rows) - np.eye(40)).max() < 4.5 / np.sqrt(4000)
    # Neighbours, and those that share a 64-bit word: half a row apart.
    for lag in (1, 2, 3, 2000):
        assert abs(np.corrcoef(rows[:, :-lag].ravel(), rows[:, lag:].ravel())[0, 1]) < 4 / np.sqrt(40 * 2000)
        squares = rows**2
        assert abs(np.corrcoef(squares[:, :-lag].ravel(), squares[:, lag:].ravel())[0, 1]) < 4 / np.sqrt(40 * 2000)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 1001])
def test_any_number_of_values_is_drawn_and_a_row_depends_on_its_seed_only(count):
    together = normals(keys(9), tf.constant(count))
    assert together.shape == (9, count)
    np.testing.assert_allclose(normals(keys(9)[4:6], tf.constant(count)), together[4:6], atol=1e-6)


@pytest.mark.parametrize("channels", [1, 3])
def test_uint8_images_get_the_noise_of_float_images_rounded_and_clipped(channels):
    batch = np.random.default_rng(1).integers(0, 256, (4, 7, 5, channels)).astype(np.uint8)
    stage = GaussianNoise(0.3)
    drawn = stage.parameters(keys(4), SPEC)
    noise = normals(drawn["noise"], tf.constant(35 * channels)).numpy().reshape(batch.shape)
    ours = stage.apply(tf.constant(batch), drawn)
    assert ours.dtype == tf.uint8
    assert np.abs(ours.numpy() - np.clip(batch + 76.5 * noise, 0, 255)).max() <= 0.5 + 1e-3
    as_float = stage.apply(tf.constant(batch / 255, tf.float32), drawn)
    np.testing.assert_allclose(as_float, np.clip(batch / 255 + 0.3 * noise, 0, 1), atol=1e-5)


def test_no_noise_changes_nothing():
    batch = tf.constant(np.random.default_rng(1).integers(0, 256, (4, 7, 5, 3)), tf.uint8)
    stage = GaussianNoise(0.0)
    assert (stage.apply(batch, stage.parameters(keys(4), SPEC)).numpy() == batch.numpy()).all()


def test_a_negative_deviation_is_refused():
    with pytest.raises(UsageError, match="gaussian_noise: stddev is at least 0, not -1.0"):
        GaussianNoise(-1)
