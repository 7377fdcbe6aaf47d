"""Inspection of a plain tf.data.Dataset: the properties in its graph on which sharding and serving depend."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import tensorflow as tf

_PYTHON_OPS = {
    "PyFunc": "tf.numpy_function",
    "PyFuncStateless": "tf.numpy_function",
    "EagerPyFunc": "tf.py_function",
    "GeneratorDataset": "from_generator",
}
_RESOURCE_OPS = {
    "VarHandleOp": "variable",
    "HashTableV2": "lookup table",
    "MutableHashTableV2": "mutable lookup table",
    "MutableDenseHashTableV2": "mutable lookup table",
    "MutableHashTableOfTensorsV2": "mutable lookup table",
}
_FILE_OPS = ("TFRecordDataset", "TextLineDataset", "FixedLengthRecordDataset")


@dataclass(frozen=True)
class Inspection:
    """Findings about one data set."""

    roots: int
    """Number of sources; more than one for zip and the like."""
    splits: int | None
    """Number of elements of the only source, which DYNAMIC sharding distributes; None if the number is unknown or
    infinite, or if there are several sources."""
    reads_files: bool
    python_functions: tuple[str, ...]
    """Python code in the graph, by the API that put it there."""
    unseeded_shuffle: bool
    seeded_shuffle: bool
    asserts_cardinality: bool
    """Whether assert_cardinality counts elements, which are fewer where the data are shared."""
    resources: tuple[str, ...] = ()
    """Variables (a Keras layer's random generator is one) and tables, which are outside the graph; copies are sent."""
    graph_bytes: int = 0
    """Size of the graph, with all the arrays in it, as it is sent to the dispatcher."""


def inspect(dataset: tf.data.Dataset) -> Inspection:
    """Returns findings from the graph of `dataset`; runs nothing of it."""
    serialised = dataset._as_serialized_graph().numpy()
    graph = tf.compat.v1.GraphDef.FromString(serialised)
    nodes = itertools.chain(graph.node, *(function.node_def for function in graph.library.function))
    ops = {node.op for node in nodes}
    every = list(with_inputs(dataset))
    roots = [part for part in every if not part._inputs()]
    splits = int(roots[0].cardinality()) if len(roots) == 1 else -1
    # Without a seed, TensorFlow writes (0, 0) and draws at run time.
    seeded = [int(part._seed) != 0 or int(part._seed2) != 0 for part in every if "Shuffle" in type(part).__name__]
    return Inspection(
        roots=len(roots),
        splits=splits if splits >= 0 else None,
        reads_files=any(op.startswith(_FILE_OPS) for op in ops),
        python_functions=tuple(sorted({_PYTHON_OPS[op] for op in ops if op in _PYTHON_OPS})),
        unseeded_shuffle=not all(seeded),
        seeded_shuffle=any(seeded),
        asserts_cardinality="AssertCardinalityDataset" in ops,
        resources=tuple(sorted({_RESOURCE_OPS[op] for op in ops if op in _RESOURCE_OPS})),
        graph_bytes=len(serialised),
    )


def without_last_assertion(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Returns the data set without an assert_cardinality at its end."""
    last = type(dataset).__name__ == "_AssertCardinalityDataset"
    return dataset._inputs()[0] if last else dataset


def with_inputs(dataset: tf.data.Dataset) -> Iterator[tf.data.Dataset]:
    """Yields the data set and those that it is made of."""
    yield dataset
    for source in dataset._inputs():
        yield from with_inputs(source)
