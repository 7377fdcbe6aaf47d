from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tfhet.errors import UsageError
from tfhet.stages import ImageSpec, RandomSaturation, randomness

pytestmark = pytest.mark.usefixtures("backend")

SPEC = ImageSpec(9, 7, 3, "uint8", 0.0, 255.0)
FACTORS = np.float32([0.0, 0.4, 1.0, 1.3, 2.5, 20.0])


def images() -> np.ndarray:
    batch = np.random.default_rng(1).integers(0, 256, (6, 9, 7, 3)).astype(np.uint8)
    batch[:, 0] = np.random.default_rng(2).integers(0, 2, (6, 7, 3)) * 255  # the corners of the cube, black among them
    batch[:, 1] = batch[:, 1, :, :1]  # greys
    return batch


def test_float_images_become_those_of_tf_image():
    batch = tf.constant(images(), tf.float32) / 255.0
    ours = RandomSaturation().apply(batch, {"saturation": tf.constant(FACTORS)})
    theirs = [tf.image.adjust_saturation(batch[i], FACTORS[i]) for i in range(6)]
    np.testing.assert_allclose(ours, theirs, atol=2e-6)


def test_uint8_images_are_rounded_to_the_nearest_level():
    batch = np.float64(images())
    ours = RandomSaturation().apply(tf.constant(images()), {"saturation": tf.constant(FACTORS)})
    most, least = batch.max(axis=-1, keepdims=True), batch.min(axis=-1, keepdims=True)
    saturation = (most - least) / np.maximum(most, 1)
    wanted = np.minimum(saturation * np.float64(FACTORS)[:, None, None, None], 1)
    exact = most - (most - batch) * wanted / np.where(saturation > 0, saturation, 1)
    assert ours.dtype == tf.uint8
    assert np.abs(ours.numpy() - exact).max() <= 0.5 + 1e-3


def test_images_of_one_channel_stay_as_they_are():
    batch = tf.constant(images()[..., :1])
    assert (RandomSaturation().apply(batch, {"saturation": tf.constant(FACTORS)}).numpy() == batch.numpy()).all()


def test_factors_are_uniform_and_the_same_in_any_batch():
    keys = randomness.keys(3, "random_saturation", 0, 0, tf.range(20_000, dtype=tf.int64))
    stage = RandomSaturation(0.2, 1.8)
    drawn = stage.parameters(keys, SPEC)["saturation"].numpy()
    assert 0.2 <= drawn.min() < 0.21
    assert 1.79 < drawn.max() <= 1.8
    assert abs(drawn.mean() - 1.0) < 4 * 0.8 / np.sqrt(3 * 20_000)
    assert (stage.parameters(keys[70:75], SPEC)["saturation"].numpy() == drawn[70:75]).all()


def test_factors_that_make_no_interval_are_refused():
    with pytest.raises(UsageError, match="random_saturation: lower is at most upper, not 1.2, 0.8"):
        RandomSaturation(1.2, 0.8)
