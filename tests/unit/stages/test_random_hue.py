from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tfhet.errors import UsageError
from tfhet.stages import ImageSpec, RandomHue, randomness

pytestmark = pytest.mark.usefixtures("backend")

SPEC = ImageSpec(9, 7, 3, "uint8", 0.0, 255.0)
TURNS = np.float32([-0.5, -0.2, 0.0, 0.05, 1 / 3, 0.5])


def images() -> np.ndarray:
    batch = np.random.default_rng(1).integers(0, 256, (6, 9, 7, 3)).astype(np.uint8)
    batch[:, 0] = np.random.default_rng(2).integers(0, 2, (6, 7, 3)) * 255  # the corners of the cube: equal maxima
    batch[:, 1] = batch[:, 1, :, :1]  # greys
    return batch


def test_float_images_become_those_of_tf_image():
    batch = tf.constant(images(), tf.float32) / 255.0
    ours = RandomHue().apply(batch, {"hue": tf.constant(TURNS)})
    theirs = [tf.image.adjust_hue(batch[i], TURNS[i]) for i in range(6)]
    np.testing.assert_allclose(ours, theirs, atol=2e-6)


def test_uint8_images_become_those_of_tf_image_rounded_to_the_nearest_level():
    batch = tf.constant(images())
    ours = RandomHue().apply(batch, {"hue": tf.constant(TURNS)})
    theirs = np.stack([tf.image.adjust_hue(tf.cast(batch[i], tf.float32), TURNS[i]) for i in range(6)])
    assert ours.dtype == tf.uint8
    assert np.abs(ours.numpy() - theirs).max() <= 0.5 + 1e-3


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_a_third_of_a_turn_moves_each_colour_on_by_one_channel(dtype):
    batch = tf.cast(images(), dtype) if dtype == "uint8" else tf.constant(images(), tf.float32) / 255.0
    turned = RandomHue().apply(batch, {"hue": tf.fill([6], 1 / 3)})
    np.testing.assert_allclose(turned, np.roll(batch, 1, axis=-1), atol=1e-5)


def test_images_of_one_channel_stay_as_they_are():
    batch = tf.constant(images()[..., :1])
    assert (RandomHue().apply(batch, {"hue": tf.constant(TURNS)}).numpy() == batch.numpy()).all()


def test_turns_are_uniform_and_the_same_in_any_batch():
    keys = randomness.keys(3, "random_hue", 0, 0, tf.range(20_000, dtype=tf.int64))
    drawn = RandomHue(0.25).parameters(keys, SPEC)["hue"].numpy()
    assert np.abs(drawn).max() <= 0.25
    assert abs(drawn.mean()) < 4 * 0.25 / np.sqrt(3 * 20_000)
    assert abs(drawn.std() - 0.25 / np.sqrt(3)) < 0.003
    assert (RandomHue(0.25).parameters(keys[70:75], SPEC)["hue"].numpy() == drawn[70:75]).all()


def test_more_than_half_a_turn_is_refused():
    with pytest.raises(UsageError, match="random_hue: delta is from 0 to 0.5, not 0.6"):
        RandomHue(0.6)
