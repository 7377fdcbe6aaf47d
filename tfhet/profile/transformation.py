"""The transformations of a plain data set: which there are, and what each says of itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tfhet.errors import UsageError

_PASSED = ("Options", "Model", "Restructured")
"""Wrappers that do not change elements."""

Apply = Callable[[tf.data.Dataset], tf.data.Dataset]


def transformations(dataset: tf.data.Dataset) -> list[tf.data.Dataset]:
    """Returns the transformations, without wrappers, from the source on; one with several inputs is the source."""
    chain = [dataset]
    while len(inputs := chain[0]._inputs()) == 1:
        chain.insert(0, inputs[0])
    kept = [each for each in chain if kind_of(each) not in _PASSED]
    if not kept:
        raise UsageError("this data set has no transformation that could be measured")
    return kept


def kind_of(dataset: tf.data.Dataset) -> str:
    """Returns the kind of a transformation: `Map`, `ParallelMap`, `Batch`, ..."""
    return type(dataset).__name__.strip("_").removesuffix("V2").removesuffix("V1").removesuffix("Dataset")


def examples_in(dataset: tf.data.Dataset, before: int) -> int:
    """Returns the number of examples in one element, as if every batch were full; `before`: in one of its input."""
    kind = kind_of(dataset)
    if kind == "Unbatch":
        return 1
    size = getattr(dataset, "_batch_size", None)
    if size is None and kind == "Rebatch":
        size = getattr(dataset, "_batch_sizes", None)
    if size is None:
        return before
    value = int(tf.reshape(tf.get_static_value(size), [-1])[0])
    return value if kind == "Rebatch" else before * value


def names_of(functions: list[Any]) -> list[str]:
    """Returns the names of the Python functions of a transformation, lambdas left out."""
    names = (getattr(function._func, "__name__", type(function._func).__name__) for function in functions)
    return [name for name in names if name != "<lambda>"]


def ops_of(function: Any) -> set[str]:
    """Returns the kinds of all operations of a function, those of called functions included."""
    definition = function.function.graph.as_graph_def()
    inner = (node.op for called in definition.library.function for node in called.node_def)
    return {node.op for node in definition.node} | set(inner)


def applied_alone(dataset: tf.data.Dataset, functions: list[Any]) -> Apply | None:
    """Returns what applies a transformation with these functions to another data set; None where that is impossible."""
    kind = kind_of(dataset)
    if kind in ("Map", "ParallelMap") and functions:
        function, calls = functions[0]._func, None if kind == "Map" else 1
        return lambda given: given.map(function, num_parallel_calls=calls)
    if kind in ("Batch", "ParallelBatch"):
        size = tf.get_static_value(dataset._batch_size)
        return lambda given: given.batch(size)
    if kind in ("Shuffle", "Prefetch"):
        buffer = int(tf.get_static_value(dataset._buffer_size))  # TF 2.21 takes no NumPy integer in prefetch
        return lambda given: given.shuffle(buffer) if kind == "Shuffle" else given.prefetch(buffer)
    if kind in ("Repeat", "Take", "Skip"):
        return lambda given: given
    return None
