from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tfhet.trainer.step import GROWTH_STEPS, INITIAL, LossScale

GOOD, BAD = [tf.constant([1.0]), tf.constant(2.0)], [tf.constant([1.0]), tf.constant(np.inf)]


def state(scale: LossScale) -> tuple[float, int]:
    return float(scale.value), int(scale.updates)


def test_gradients_are_unscaled():
    scale = LossScale()
    found = scale.unscaled([tf.constant([3.0 * INITIAL]), tf.constant(INITIAL / 4)])
    assert [np.asarray(gradient).tolist() for gradient in found] == [[3.0], 0.25]


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_infinite_gradient_halves_the_scale(bad):
    scale = LossScale()
    assert bool(scale.admits(GOOD))
    assert state(scale) == (INITIAL, 1)
    assert not scale.admits([GOOD[0], tf.constant(bad)])
    assert state(scale) == (INITIAL / 2, 0)


def test_scale_doubles_after_many_updates():
    scale = LossScale()
    scale.updates.assign(GROWTH_STEPS - 2)
    assert bool(scale.admits(GOOD))
    assert state(scale) == (INITIAL, GROWTH_STEPS - 1)
    assert bool(scale.admits(GOOD))
    assert state(scale) == (2 * INITIAL, 0)


def test_scale_stays_within_its_limits():
    scale = LossScale()
    scale.value.assign(1.5)
    for _ in range(2):
        scale.admits(BAD)
    assert state(scale) == (1.0, 0)
    scale.value.assign(2.0**127)
    scale.updates.assign(GROWTH_STEPS - 1)
    scale.admits(GOOD)
    assert state(scale) == (2.0**127, 0)


def test_rules_equal_keras():
    optimizer = tf.keras.mixed_precision.LossScaleOptimizer
    if not hasattr(optimizer, "get_scaled_loss"):
        pytest.skip("Keras 2's LossScaleOptimizer is missing")
    variable, scale = tf.Variable(1.0), LossScale()
    theirs = optimizer(tf.keras.optimizers.SGD(0.0), initial_scale=INITIAL, dynamic_growth_steps=GROWTH_STEPS)
    theirs.build([variable])
    scale.updates.assign(GROWTH_STEPS - 2)
    theirs._loss_scale.counter.assign(GROWTH_STEPS - 2)
    for gradient in (1.0, np.inf, 1.0, np.nan, 0.0):
        theirs.apply_gradients([(tf.constant(gradient), variable)])
        scale.admits([tf.constant(gradient)])
        assert float(scale.value) == float(theirs.loss_scale)
