"""What a plain tf.data.Dataset is made of, as far as its graph tells: what sharding and serving it depends on."""

from __future__ import annotations

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
    """Elements of the only source, which DYNAMIC sharding deals out; None: unknown, endless, or several sources."""
    reads_files: bool
    python_functions: tuple[str, ...]
    """Python code in the graph, by the API that put it there."""
    unseeded_shuffle: bool
    seeded_shuffle: bool
    asserts_cardinality: bool
    """Whether assert_cardinality counts elements, which are fewer where the data are shared."""
    resources: tuple[str, ...] = ()
    """What it keeps outside the graph: variables (a Keras layer's random generator is one), tables. Copies travel."""
    graph_bytes: int = 0
    """Of the graph, with all the arrays in it, as it is sent to the dispatcher."""


def inspect(dataset: tf.data.Dataset) -> Inspection:
    """Looks at the graph of `dataset`; runs nothing of it."""
    graph = dataset._as_serialized_graph().numpy()
    ops = {node.op for node in _nodes(graph)}
    roots = list(_roots(dataset))
    splits = int(roots[0].cardinality()) if len(roots) == 1 else -1
    shuffles = list(_shuffles(dataset))
    return Inspection(
        roots=len(roots),
        splits=splits if splits >= 0 else None,
        reads_files=any(op.startswith(_FILE_OPS) for op in ops),
        python_functions=tuple(sorted({_PYTHON_OPS[op] for op in ops if op in _PYTHON_OPS})),
        unseeded_shuffle=any(not seeded for seeded in shuffles),
        seeded_shuffle=any(shuffles),
        asserts_cardinality="AssertCardinalityDataset" in ops,
        resources=tuple(sorted({_RESOURCE_OPS[op] for op in ops if op in _RESOURCE_OPS})),
        graph_bytes=len(graph),
    )


def without_last_assertion(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """The same without an assert_cardinality at its end."""
    last = type(dataset).__name__ == "_AssertCardinalityDataset"
    return dataset._inputs()[0] if last else dataset


def _nodes(serialised: bytes) -> Iterator[tf.compat.v1.NodeDef]:
    graph = tf.compat.v1.GraphDef.FromString(serialised)
    yield from graph.node
    for function in graph.library.function:
        yield from function.node_def


def _chain(dataset: tf.data.Dataset) -> Iterator[tf.data.Dataset]:
    yield dataset
    for source in dataset._inputs():
        yield from _chain(source)


def _roots(dataset: tf.data.Dataset) -> Iterator[tf.data.Dataset]:
    return (part for part in _chain(dataset) if not part._inputs())


def _shuffles(dataset: tf.data.Dataset) -> Iterator[bool]:
    """For each shuffle: whether it has a seed. Without one, TensorFlow writes (0, 0) and draws at run time."""
    for part in _chain(dataset):
        if "Shuffle" in type(part).__name__:
            yield any(int(seed) != 0 for seed in (part._seed, part._seed2))
