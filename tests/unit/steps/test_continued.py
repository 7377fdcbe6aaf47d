from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tfhet.planes import distribute
from tfhet.strategies import JobContext

PASS, COUNT = 3, 40


def shared() -> tf.data.Dataset:
    data = tf.data.Dataset.range(COUNT).map(lambda n: (tf.fill([3], tf.cast(n, tf.float32)), n)).batch(4)
    return distribute(data, steps_per_epoch=PASS, job=JobContext("job", "homogeneous"))


class Order(tf.keras.metrics.Metric):
    """The labels of the batches, in their order."""

    def __init__(self) -> None:
        super().__init__(name="order")
        self.count = self.add_weight(name="count", shape=[], initializer="zeros")
        self.seen = self.add_weight(name="seen", shape=[200], initializer="zeros")

    def update_state(self, labels: Any, predictions: Any, sample_weight: Any = None) -> None:
        labels = tf.reshape(tf.cast(labels, tf.float32), [-1])
        begin = tf.cast(self.count, tf.int32)
        places = tf.range(begin, begin + tf.size(labels))
        self.seen.assign(tf.tensor_scatter_nd_update(tf.convert_to_tensor(self.seen), places[:, None], labels))
        self.count.assign_add(tf.cast(tf.size(labels), tf.float32))

    def result(self) -> Any:
        return tf.identity(self.count)

    def reset_state(self) -> None:
        pass

    def read(self) -> list[int]:
        seen, count = (tf.convert_to_tensor(each).numpy() for each in (self.seen, self.count))
        return [int(each) for each in seen[: int(count)]]


@pytest.fixture(params=["alone", "mirrored"])
def scope(request: pytest.FixtureRequest) -> Any:
    return (
        tf.distribute.MirroredStrategy(["CPU:0"]).scope() if request.param == "mirrored" else contextlib.nullcontext()
    )


@pytest.fixture(params=["built", "built by fit"])
def model(request: pytest.FixtureRequest, scope: Any) -> Any:
    given = [tf.keras.Input([3])] if request.param == "built" else []
    with scope:
        model = tf.keras.Sequential([*given, tf.keras.layers.Dense(1)])
        model.order = Order()
        model.compile("sgd", "mse", metrics=[model.order])
    return model


def check(model: Any, steps: int) -> None:
    found = model.order.read()
    assert len(found) == 4 * steps
    np.testing.assert_array_equal(found, np.arange(len(found)) % COUNT)


@pytest.mark.parametrize("steps", [2, 3, 4])
@pytest.mark.parametrize("derive", [lambda data: data, lambda data: data.map(lambda x, y: (x, y)).prefetch(1)])
def test_fit_with_any_number_of_steps_continues(model, derive, steps):
    batches: list[int] = []
    note = tf.keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: batches.append(batch))
    share = shared()
    model.fit(derive(share), epochs=3, steps_per_epoch=steps, verbose=0, callbacks=[note])
    assert batches == [*range(steps)] * 3
    check(model, 3 * steps)
    assert len(list(share)) == PASS, "other consumers get a pass"


def test_each_fit_begins_with_the_next_pass(model):
    share = shared()
    for _ in range(4):
        model.fit(share, verbose=0)
    check(model, 4 * PASS)


def test_evaluation_continues_too(model):
    share = shared()
    model.evaluate(share, verbose=0)
    model.fit(share, epochs=2, verbose=0)
    model.evaluate(share, verbose=0)
    check(model, 4 * PASS)


def test_a_distributed_data_set_continues():
    strategy, share = tf.distribute.MirroredStrategy(["CPU:0"]), shared()
    with strategy.scope():
        model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
        model.order = Order()
        model.compile("sgd", "mse", metrics=[model.order])
    distributed = strategy.experimental_distribute_dataset(share)
    for _ in range(2):
        model.fit(distributed, steps_per_epoch=PASS, verbose=0)
    check(model, 2 * PASS)


def test_unknown_shapes_are_read_with_a_warning(caplog):
    strategy = tf.distribute.MirroredStrategy(["CPU:0"])
    share = shared().map(
        lambda x, y: (tf.ensure_shape(tf.py_function(lambda each: each, [x], tf.float32), [4, None]), y)
    )
    with strategy.scope():
        model = tf.keras.Sequential([tf.keras.layers.Lambda(lambda x: x[:, :1])])
        model.compile("sgd", "mse")
    model.fit(share, verbose=0)
    is_keras_3 = int(getattr(tf.keras, "__version__", "2").partition(".")[0]) >= 3
    assert ("Build the model before fit" in caplog.text) == is_keras_3
