"""Inspection of a plain tf.data.Dataset: the properties in its graph on which sharding and serving depend."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from tfhet.datasets import tf_internals
from tfhet.errors import UsageError

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
_LOCAL = ("Dataset", "TensorArray", "Optional", "Iterator", "Variable")
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
    is_positional: bool = False
    """Whether operations outside functions depend on the place of an element: take, zip and the like."""
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
    bodies = [graph.node, *(function.node_def for function in graph.library.function)]
    seeded = [is_seeded for body in bodies for is_seeded in _seeded(body)]
    return Inspection(
        roots=len(roots),
        splits=splits if splits >= 0 else None,
        reads_files=any(op.startswith(_FILE_OPS) for op in ops),
        python_functions=tuple(sorted({_PYTHON_OPS[op] for op in ops if op in _PYTHON_OPS})),
        unseeded_shuffle=not all(seeded),
        seeded_shuffle=any(seeded),
        asserts_cardinality="AssertCardinalityDataset" in ops,
        is_positional=any(node.op.startswith(tf_internals.POSITIONAL) for node in graph.node),
        resources=tuple(sorted({_RESOURCE_OPS[op] for op in ops if op in _RESOURCE_OPS})),
        graph_bytes=len(serialised),
    )


def _seeded(nodes: Any) -> Iterator[bool]:
    """Whether each source of random numbers has a seed. Without one, TensorFlow writes (0, 0) and draws at run time."""
    constants = {node.name: node for node in nodes if node.op == "Const"}
    for node in nodes:
        if node.op.startswith(("Shuffle", "RandomDataset")):
            sources = node.input[:2] if node.op.startswith("Random") else node.input[2:4]
            seeds = [constants.get(source.partition(":")[0]) for source in sources]
            yield any(seed is not None and tf.make_ndarray(seed.attr["value"].tensor) != 0 for seed in seeds)


def check_elements(element_spec: Any) -> None:
    """Raises UsageError for elements that cannot be sent to another process, such as data sets."""
    for spec in tf.nest.flatten(element_spec):
        kind = type(spec).__name__.removesuffix("Spec")
        if kind in _LOCAL or getattr(spec, "dtype", None) in (tf.variant, tf.resource):
            what = "data sets (window, or a function that returns one)" if kind == "Dataset" else f"a {kind}"
            raise UsageError(
                f"the elements of the data set contain {what}, which cannot be sent to other processes: make "
                "tensors of them, of data sets with flat_map, or with .batch(...).get_single_element() in a map"
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
