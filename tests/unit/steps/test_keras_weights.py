from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfhet.steps.keras_weights import _Sampler
from tfhet.steps.weights import positions

SHAPES = [(), (3,), (5, 7), (3, 3, 4, 8), (64, 256)]


class Owner:
    pass


def sample(variables):
    return _Sampler().sample(Owner(), variables)


def made(shape, dtype):
    return tf.Variable(tf.cast(tf.random.stateless_normal(shape, (1, len(shape))), dtype))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
def test_samples_are_elements_of_the_variables(dtype):
    variables = [made(shape, dtype) for shape in SHAPES]
    others = [tf.Variable(3), tf.Variable(np.zeros([0, 4], np.float32))]
    found = sample([*others, *variables])
    assert found.shapes == SHAPES
    flat = [tf.cast(one, tf.float32).numpy().ravel() for one in variables]
    assert np.array_equal(found.values, [each[positions(each.size)] for each in flat])


def test_variables_of_a_strategy_are_sampled():
    with tf.distribute.MirroredStrategy(["CPU:0"]).scope():
        mirrored = [made(shape, "float32") for shape in SHAPES]
    expected = [one.numpy().ravel()[positions(one.numpy().size)] for one in mirrored]
    assert np.array_equal(sample(mirrored).values, expected)


def test_model_of_keras_is_sampled():
    model = keras.Sequential([keras.layers.Input([8]), keras.layers.Dense(16), keras.layers.Dense(1)])
    found = sample(model.trainable_variables)
    assert found.shapes == [(8, 16), (16,), (16, 1), (1,)]
    assert np.array_equal(found.values[3], np.full(32, model.trainable_variables[3].numpy()[0]))


def test_layout_follows_the_variables():
    sampler, owner = _Sampler(), Owner()
    first, second = made((4,), "float32"), made((6, 2), "float32")
    assert sampler.sample(owner, [first]).shapes == [(4,)]
    first.assign(np.arange(4, dtype=np.float32))
    assert sampler.sample(owner, [first]).values.max() == 3.0
    assert sampler.sample(owner, [first, second]).shapes == [(4,), (6, 2)]
    assert sampler.sample(owner, [second]).values.shape == (1, 32)


@pytest.mark.parametrize(
    "variable",
    [None, "text", tf.Variable(1.0, shape=tf.TensorShape(None)), tf.Variable([1.0], shape=[None])],
    ids=["dead", "no variable", "no rank", "no size"],
)
def test_other_variables_have_no_sample(variable):
    assert sample([tf.Variable([1.0]), variable]) is None
