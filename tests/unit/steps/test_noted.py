from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tfhet import native
from tfhet.steps import noted as room
from tfhet.steps.noted import NotedDataset


def compiled() -> Any:
    ops = native.ops("deliveries")
    if ops is None:
        pytest.skip("a C++ compiler is missing (Debian: g++)")
    return ops


@pytest.fixture(params=["compiled", "plain"])
def ops(request: pytest.FixtureRequest) -> Any | None:
    return compiled() if request.param == "compiled" else None


def pairs(count: int = 10, batch: int = 4) -> tf.data.Dataset:
    return tf.data.Dataset.range(count).map(lambda number: (tf.fill([3], number), number)).batch(batch)


def test_elements_types_and_cardinality_stay(ops):
    data = NotedDataset(pairs(), ops).dataset
    assert data.element_spec == pairs().element_spec
    assert int(data.cardinality()) == int(pairs().cardinality()) == 3
    for ours, theirs in zip(data.as_numpy_iterator(), pairs().as_numpy_iterator(), strict=True):
        for left, right in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(left, right)


def test_deliveries_and_ends_are_noted(ops):
    noted = NotedDataset(pairs(), ops)
    before_s = time.monotonic()
    for _ in range(2):
        for _ in noted.dataset:
            pass
    notes = noted.take()
    last = [None] if ops else []  # with plain operations, only the next pass shows the end of one
    assert [note.examples for note in notes] == [4, 4, 2, None, 4, 4, 2, *last]
    assert [note.index for note in notes] == [0, 1, 2, 3, 0, 1, 2, 3][: len(notes)]
    assert all(before_s - 0.1 <= note.asked_s <= note.delivered_s <= time.monotonic() + 0.1 for note in notes)
    assert noted.take() == []


def slow(element: tf.Tensor) -> tf.Tensor:
    def wait(value: np.ndarray) -> np.ndarray:
        time.sleep(0.05)
        return value

    return tf.ensure_shape(tf.numpy_function(wait, [element], element.dtype), [None])


def test_waits_include_what_the_script_adds(ops):
    noted = NotedDataset(tf.data.Dataset.range(6).batch(2), ops)
    for _ in noted.dataset.map(slow):
        pass
    waits_s = [note.delivered_s - note.asked_s for note in noted.take() if note.examples]
    assert len(waits_s) == 3 and waits_s[0] > 0.04  # the next element is prepared while this loop has a turn
    delivered = [note.delivered_s - note.asked_s for note in noted.take_deliveries() if note.examples]
    assert len(delivered) == (3 if ops else 0) and sum(delivered) < sum(waits_s)


@pytest.mark.parametrize("after", [lambda data: data, lambda data: data.prefetch(2), lambda data: data.cache()])
def test_the_batches_of_keras_are_noted_in_every_epoch(ops, after):
    noted = NotedDataset(tf.data.Dataset.range(8).map(lambda n: (tf.fill([3], n), n)).batch(2), ops)
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.fit(after(noted.dataset), epochs=2, verbose=0)
    notes = [note for note in noted.take() if note.examples]
    assert [note.index for note in notes] == [0, 1, 2, 3] * 2
    assert all(note.examples == 2 for note in notes)


def test_ids_are_removed_and_kept():
    data = tf.data.Dataset.range(10).map(lambda n: (tf.fill([3], n), n, n + 100, n // 5)).batch(4)
    noted = NotedDataset(data, compiled(), has_ids=True)
    assert noted.dataset.element_spec == data.element_spec[:2] and int(noted.dataset.cardinality()) == 3
    assert [len(element) for element in noted.dataset] == [2] * 3
    np.testing.assert_array_equal(noted.take_ids(), [np.arange(100, 110), np.arange(10) // 5])
    assert noted.take_ids().shape == (2, 0)
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.fit(noted.dataset.prefetch(1), epochs=2, verbose=0)
    assert sorted(noted.take_ids()[0]) == sorted([*range(100, 110)] * 2)


def test_elements_without_ids_are_refused():
    floats = tf.data.Dataset.from_tensors((tf.zeros(1), tf.zeros(1), tf.zeros(1))).batch(1)
    with pytest.raises(tf.errors.InvalidArgumentError, match="ids and epochs"):
        NotedDataset(floats, compiled(), has_ids=True)


def before_the_notes(dataset: tf.data.Dataset) -> str:
    """The last transformation before the notes."""
    (noted,) = NotedDataset(dataset, compiled()).dataset._inputs()
    (last,) = noted._inputs()
    return type(last).__name__


def test_automatic_prefetch_precedes_the_notes():
    assert before_the_notes(pairs()) == "_PrefetchDataset"
    assert before_the_notes(pairs().map(lambda a, b: (a, b), num_parallel_calls=2)) == "_ParallelMapDataset"
    options = tf.data.Options()
    options.autotune.enabled = False
    assert before_the_notes(pairs().with_options(options)) == "_OptionsDataset"


def test_prepared_elements_cause_no_wait(ops):
    prepared: list[int] = []

    def prepare(value: np.ndarray) -> np.ndarray:
        time.sleep(0.5)
        prepared.append(int(value[0]))
        return value

    data = tf.data.Dataset.range(4).batch(1)
    data = data.map(lambda element: tf.ensure_shape(tf.numpy_function(prepare, [element], element.dtype), [None]))
    noted = NotedDataset(data, ops)
    for count, _ in enumerate(noted.dataset.prefetch(2), start=1):
        deadline_s = time.monotonic() + 30
        while len(prepared) < min(count + 1, 4):  # the next one is prepared before it is requested
            assert time.monotonic() < deadline_s
            time.sleep(0.01)
    first, *others = [note.delivered_s - note.asked_s for note in noted.take() if note.examples]
    assert len(others) == 3 and first > 0.4 and sorted(others)[1] < 0.25


def test_other_data_sets_stay(ops):
    NotedDataset(pairs(), ops)
    assert list(tf.data.Dataset.range(3).as_numpy_iterator()) == [0, 1, 2]
    assert room._noted_in(tf.data.Dataset.range(3)) is None
