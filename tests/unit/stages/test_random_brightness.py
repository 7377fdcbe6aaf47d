from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tfhet.errors import UsageError
from tfhet.stages import ImageSpec, RandomBrightness, randomness

pytestmark = pytest.mark.usefixtures("backend")

SPEC = ImageSpec(9, 7, 3, "uint8", 0.0, 255.0)
DELTAS = np.float32([-1.0, -0.31, 0.0, 0.002, 0.5, 1.0])


def images(channels: int = 3) -> np.ndarray:
    return np.random.default_rng(1).integers(0, 256, (6, 9, 7, channels)).astype(np.uint8)


@pytest.mark.parametrize("channels", [1, 3])
def test_float_images_become_those_of_tf_image_clipped(channels):
    batch = tf.constant(images(channels), tf.float32) / 255.0
    ours = RandomBrightness().apply(batch, {"brightness": tf.constant(DELTAS)})
    theirs = [tf.clip_by_value(tf.image.adjust_brightness(batch[i], DELTAS[i]), 0, 1) for i in range(6)]
    np.testing.assert_allclose(ours, theirs, atol=1e-6)


@pytest.mark.parametrize("channels", [1, 3])
def test_uint8_images_are_rounded_to_the_nearest_level(channels):
    batch = images(channels)
    ours = RandomBrightness().apply(tf.constant(batch), {"brightness": tf.constant(DELTAS)})
    exact = np.clip(batch + np.float64(DELTAS * np.float32(255))[:, None, None, None], 0, 255)
    assert ours.dtype == tf.uint8
    assert np.abs(ours.numpy() - exact).max() <= 0.5 + 1e-4
    theirs = [tf.image.adjust_brightness(batch[i], DELTAS[i]) for i in range(6)]
    assert np.abs(np.int32(ours) - np.int32(theirs)).max() <= 1


def test_what_is_added_is_uniform_and_the_same_in_any_batch():
    keys = randomness.keys(3, "random_brightness", 0, 0, tf.range(20_000, dtype=tf.int64))
    drawn = RandomBrightness(0.3).parameters(keys, SPEC)["brightness"].numpy()
    assert drawn.min() >= -0.3
    assert drawn.max() <= 0.3
    assert abs(drawn.mean()) < 4 * 0.3 / np.sqrt(3 * 20_000)
    assert abs(drawn.std() - 0.3 / np.sqrt(3)) < 0.003
    assert (RandomBrightness(0.3).parameters(keys[70:75], SPEC)["brightness"].numpy() == drawn[70:75]).all()


def test_a_delta_beyond_the_range_is_refused():
    with pytest.raises(UsageError, match="delta is from 0 to 1, not 32"):
        RandomBrightness(32)
