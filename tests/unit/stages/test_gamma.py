from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tfhet.errors import UsageError
from tfhet.stages import Gamma

pytestmark = pytest.mark.usefixtures("backend")

EVERY_LEVEL = np.arange(256, dtype=np.uint8).reshape(1, 16, 16, 1)
CASES = [(1.0, 1.0), (0.4, 1.0), (2.2, 1.0), (1.7, 1.5), (0.5, 0.3), (10.0, 100.0)]


@pytest.mark.parametrize(("gamma", "gain"), CASES)
def test_float_images_are_those_of_tf_image_clipped(gamma, gain):
    batch = tf.constant(np.random.default_rng(1).random((4, 19, 17, 3)), tf.float32)
    batch = tf.concat([batch, tf.zeros_like(batch[:1]), tf.ones_like(batch[:1])], axis=0)
    theirs = tf.minimum(tf.image.adjust_gamma(batch, gamma, gain), 1.0)
    np.testing.assert_allclose(Gamma(gamma, gain).apply(batch, {}), theirs, atol=5e-6)


@pytest.mark.parametrize(("gamma", "gain"), CASES)
def test_every_uint8_level_becomes_the_nearest_one(gamma, gain):
    ours = Gamma(gamma, gain).apply(tf.constant(EVERY_LEVEL), {})
    exact = np.minimum(255 * gain * (EVERY_LEVEL / 255) ** gamma, 255)
    assert ours.dtype == tf.uint8
    assert np.abs(ours.numpy() - exact).max() <= 0.5 + 1e-9


def test_a_gamma_and_gain_of_one_change_nothing():
    assert (Gamma().apply(tf.constant(EVERY_LEVEL), {}).numpy() == EVERY_LEVEL).all()


@pytest.mark.parametrize("values", [(0.0, 1.0), (1.0, -1.0), (float("nan"), 1.0), (1.0, float("inf"))])
def test_what_is_not_positive_and_finite_is_refused(values):
    with pytest.raises(UsageError, match="gamma: (gamma|gain) is (above 0|finite), not"):
        Gamma(*values)
