from __future__ import annotations

import functools

import pytest
import tensorflow as tf

from tfhet.errors import UsageError
from tfhet.pipeline import Pipeline
from tfhet.profile import anatomy_of
from tfhet.source import SyntheticSource

UINT8, FLOAT32 = 8 * 8 * 3, 8 * 8 * 3 * 4


def images() -> tf.data.Dataset:
    def scale(image: tf.Tensor) -> tf.Tensor:
        return tf.cast(image, tf.float32) / 255.0

    arrays = tf.data.Dataset.from_tensor_slices(tf.zeros([12, 8, 8, 3], tf.uint8))
    return arrays.shuffle(5, seed=1).map(scale, num_parallel_calls=2).batch(4).prefetch(1)


def test_steps_are_transformations_with_sizes():
    found = anatomy_of(images())
    assert [(step.name, step.kind) for step in found.steps] == [
        ("TensorSlice", "TensorSlice"),
        ("Shuffle", "Shuffle"),
        ("scale", "ParallelMap"),
        ("Batch", "Batch"),
        ("Prefetch", "Prefetch"),
    ]
    assert [step.example_bytes for step in found.steps] == [UINT8, UINT8, FLOAT32, FLOAT32, FLOAT32]
    assert {step.example_values for step in found.steps} == {8 * 8 * 3}
    assert [step.examples for step in found.steps] == [1, 1, 1, 4, 4]
    assert [step.elements for step in found.steps] == [12, 12, 12, 3, 3]
    assert found.steps[1].buffer == 5 and "Cast" in found.steps[2].ops
    assert (found.elements, found.splits, found.refusal) == (3, 12, "")
    assert found.graph_bytes > 12 * UINT8
    assert not (found.is_declared or found.is_endless or found.reads_files or found.resources)
    endless = anatomy_of(images().repeat())
    assert endless.is_endless and endless.elements is None


@pytest.mark.parametrize(
    ("made", "kinds"),
    [
        (lambda: tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer([1], [2]), 0).lookup, ("lookup table",)),
        (lambda: tf.lookup.experimental.MutableHashTable(tf.int32, tf.int32, 0).lookup, ("mutable lookup table",)),
        (lambda: tf.Variable(1).__add__, ("variable",)),
        (lambda: functools.partial(tf.keras.layers.RandomFlip(), tf.zeros([1, 4, 4, 3]), training=True), ("variable",)),
        (lambda: abs, ()),
    ],
)
def test_tables_and_variables_are_resources(made, kinds):
    function = made()
    numbers = tf.data.Dataset.from_tensor_slices([1, 2])
    assert (
        anatomy_of(
            numbers.map(lambda x: function() if isinstance(function, functools.partial) else function(x))
        ).resources
        == kinds
    )


def test_components_without_shape_are_named():
    assert anatomy_of(tf.data.Dataset.range(4).window(2)).no_tensors == ("DatasetSpec",)
    ragged = tf.data.Dataset.from_tensors(tf.ragged.constant([[1, 2], [3]]))
    assert anatomy_of(ragged).no_tensors == ("RaggedTensorSpec",)
    shapeless = tf.data.Dataset.range(2).map(lambda x: tf.io.parse_tensor(tf.strings.as_string(x), tf.int32))
    assert anatomy_of(shapeless).unknown_shapes == ("int32",)
    zipped = anatomy_of(tf.data.Dataset.zip((images(), images())))
    assert zipped.no_tensors == zipped.unknown_shapes == () and zipped.splits is None


def test_operations_that_workers_cannot_share_are_found():
    assert "take" in anatomy_of(images().shuffle(9).take(3)).refusal


def test_anatomy_of_a_pipeline_is_remote_part():
    found = anatomy_of(Pipeline(SyntheticSource(64, 4, shape=(8, 8, 3)), "dilate(3); rescale()", 16))
    assert found.is_declared and found.splits == 4
    assert "uint8" in found.steps[-1].dtypes and "float32" not in found.steps[-1].dtypes


def test_large_arrays_are_not_serialised(monkeypatch):
    from tfhet.profile import anatomy

    monkeypatch.setattr(anatomy, "MOST_GRAPH_BYTES", 100)
    monkeypatch.setattr(anatomy, "inspect", lambda dataset: pytest.fail("the graph was written"))
    assert anatomy_of(images()).graph_bytes == 12 * UINT8


def test_native_pipeline_has_no_graph():
    with pytest.raises(UsageError, match="runs natively"):
        anatomy_of(Pipeline(SyntheticSource(64, 4, shape=(8, 8, 3)), "rescale()", 16, shuffle=True))
