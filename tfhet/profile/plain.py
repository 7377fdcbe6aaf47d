"""The parts of a plain `tf.data.Dataset`: its transformations, from the source on."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tfhet.errors import UsageError
from tfhet.profile.part import PipelinePart

_PASSED = ("Options", "Model", "Restructured")
"""Wrappers that do not change elements."""
_SOURCES = ("Interleave", "FlatMap", "ParallelInterleave")
"""Up to the last of these transformations, elements are file names or the like: all of it counts as the source."""


def parts_of_dataset(dataset: tf.data.Dataset) -> list[PipelinePart]:
    """Returns a part for each transformation with its function.

    A data set with several inputs (`zip`, ...) counts as a source. Raises UsageError for a data set without a
    transformation.
    """
    chain = _chain(dataset)
    first = max((i for i, each in enumerate(chain) if _kind(each).startswith(_SOURCES)), default=0)
    parts: list[PipelinePart] = []
    examples = 1
    for number, each in enumerate(chain[first:]):
        kind = _kind(each)
        examples = _examples(each, kind, examples)
        functions = [] if number == 0 else each._functions()
        if kind in ("Batch", "ParallelBatch") and parts and parts[-1].kind == "ParallelMap" and number > 1:
            parts.append(_with_batch(parts.pop(), each, kind, examples))
            continue
        ops = frozenset(op for function in functions for op in _ops(function.function.graph))
        words = ["source" if number == 0 else str(number), kind, *_names(functions)]
        alone = _alone(each, kind, functions) if number else None
        parallel = kind == "ParallelMap" if kind.endswith("Map") else None
        parts.append(
            PipelinePart(" ".join(words), _endless(each), examples, alone, kind=kind, ops=ops, parallel=parallel)
        )
    return parts


def _with_batch(part: PipelinePart, dataset: tf.data.Dataset, kind: str, examples: int) -> PipelinePart:
    """Joins a parallel map and the batch after it, which tf.data runs as one."""
    mapped, batched = part.alone, _alone(dataset, kind, [])
    assert mapped is not None and batched is not None
    return dataclasses.replace(
        part,
        name=f"{part.name}, {kind}",
        upto=_endless(dataset),
        examples=examples,
        alone=lambda given: batched(mapped(given)),
    )


def _endless(dataset: tf.data.Dataset) -> tf.data.Dataset:
    return dataset.repeat() if dataset.cardinality() != tf.data.INFINITE_CARDINALITY else dataset


def _chain(dataset: tf.data.Dataset) -> list[tf.data.Dataset]:
    """Returns the transformations, without wrappers, from the source on; one with several inputs is the source."""
    chain = [dataset]
    while len(inputs := chain[0]._inputs()) == 1:
        chain.insert(0, inputs[0])
    kept = [each for each in chain if _kind(each) not in _PASSED]
    if not kept:
        raise UsageError("this data set has no transformation that could be measured")
    return kept


def _kind(dataset: tf.data.Dataset) -> str:
    return type(dataset).__name__.strip("_").removesuffix("V2").removesuffix("V1").removesuffix("Dataset")


def _examples(dataset: tf.data.Dataset, kind: str, before: int) -> int:
    """Returns the number of examples in one element, from the batch size, as if every batch were full."""
    if kind == "Unbatch":
        return 1
    size = getattr(dataset, "_batch_size", None)
    if size is None and kind == "Rebatch":
        size = getattr(dataset, "_batch_sizes", None)
    if size is None:
        return before
    value = int(tf.reshape(tf.get_static_value(size), [-1])[0])
    return value if kind == "Rebatch" else before * value


def _names(functions: list[Any]) -> list[str]:
    names = (getattr(function._func, "__name__", type(function._func).__name__) for function in functions)
    return [name for name in names if name != "<lambda>"]


def _ops(graph: Any) -> set[str]:
    """Returns the kinds of all operations, those of called functions included."""
    definition = graph.as_graph_def()
    inner = (node.op for function in definition.library.function for node in function.node_def)
    return {node.op for node in definition.node} | set(inner)


def _alone(
    dataset: tf.data.Dataset, kind: str, functions: list[Any]
) -> Callable[[tf.data.Dataset], tf.data.Dataset] | None:
    if kind in ("Map", "ParallelMap") and functions:
        function = functions[0]._func
        calls = None if kind == "Map" else 1
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
