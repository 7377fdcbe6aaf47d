"""The parts of an input pipeline, declared or plain, as data sets that can be measured."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from tfhet import stages as stage_room
from tfhet.errors import UsageError
from tfhet.placement import Cut, Pipeline, local_part, remote_part, steps

READING = "read, parse and batch"
_PASSED = ("Options", "Model", "Restructured")
"""Wrappers that do not change elements."""
_SOURCES = ("Interleave", "FlatMap", "ParallelInterleave")
"""Up to the last of these transformations, elements are file names or the like: all of it counts as the source."""

Apply = Callable[[tf.data.Dataset], tf.data.Dataset]


@dataclass(frozen=True)
class PipelinePart:
    """A step of a declared pipeline, or one transformation of a plain data set."""

    name: str
    """Name in tables, different for each part of a pipeline."""
    upto: tf.data.Dataset
    """The pipeline up to and including this part, without end."""
    examples: int = 1
    """Number of examples in one element of `upto`."""
    alone: Apply | None = None
    """Applies this part alone to the elements of the part before; None where that is impossible."""
    idle: Apply = lambda dataset: dataset
    """Has the overhead of `alone` but does not do its work, and is subtracted; by default hands elements over."""
    kind: str = ""
    """Kind of transformation in a plain data set: `Map`, `Batch`."""
    ops: frozenset[str] = frozenset()
    """Kinds of graph operations in its functions."""
    parallel: bool | None = None
    """Whether a map has `num_parallel_calls`; None for other transformations."""


def parts_of_pipeline(pipeline: Pipeline) -> list[PipelinePart]:
    """Returns the parts, all in one process and on one thread. Stages that are fused are one part.

    An operation whose results cannot be batched (images of different sizes) is joined with the next one.
    """
    batch, begin, end = pipeline.batch_size, 0, 0
    parts = [PipelinePart(READING, remote_part(pipeline, None, Cut(0), threads=1), batch, kind="Source")]
    names: list[str] = []
    for step in steps(pipeline):
        end += len(step.stages)
        names.append(stage_room.text(tuple(placed.stage for placed in step.stages)))
        if step.stages[-1].output.ragged and end < len(pipeline.placed()):
            continue
        name, taken = "; ".join(names), {part.name for part in parts}
        if name in taken:
            name = next(f"{name} ({number})" for number in range(2, 99) if f"{name} ({number})" not in taken)
        upto = remote_part(pipeline, None, Cut(end), threads=1)
        parts.append(PipelinePart(name, upto, batch, _stages_alone(pipeline, begin, end), _idle, kind="Stage"))
        names, begin = [], end
    return parts


def _stages_alone(pipeline: Pipeline, begin: int, end: int) -> Apply:
    return lambda dataset: local_part(pipeline, dataset, Cut(begin), threads=1, end=end)


def _idle(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Returns the same iterators without a stage, which the whole pipeline has once for all stages."""
    return dataset.map(lambda element: element, num_parallel_calls=1).prefetch(2)


def parts_of_dataset(dataset: tf.data.Dataset) -> list[PipelinePart]:
    """Returns a part for each transformation with its function.

    A data set with several inputs (`zip`, ...) counts as a source. Raises UsageError for a data set without a
    transformation.
    """
    chain = transformations(dataset)
    first = max((i for i, each in enumerate(chain) if kind_of(each).startswith(_SOURCES)), default=0)
    parts: list[PipelinePart] = []
    examples = 1
    for number, each in enumerate(chain[first:]):
        kind, functions = kind_of(each), each._functions() if number else []
        examples = examples_in(each, examples)
        endless = each if each.cardinality() == tf.data.INFINITE_CARDINALITY else each.repeat()
        if kind in ("Batch", "ParallelBatch") and parts and parts[-1].kind == "ParallelMap" and number > 1:
            parts.append(_with_batch(parts.pop(), each, endless, examples))
            continue
        ops = frozenset(op for function in functions for op in ops_of(function))
        words = [str(number) if number else "source", kind, *names_of(functions)]
        alone = _alone(each, functions) if number else None
        parallel = kind == "ParallelMap" if kind.endswith("Map") else None
        parts.append(PipelinePart(" ".join(words), endless, examples, alone, kind=kind, ops=ops, parallel=parallel))
    return parts


def _with_batch(part: PipelinePart, dataset: tf.data.Dataset, endless: tf.data.Dataset, examples: int) -> PipelinePart:
    """Joins a parallel map and the batch after it, which tf.data runs as one."""
    mapped, batched = part.alone, _alone(dataset, [])
    assert mapped is not None and batched is not None
    name = f"{part.name}, {kind_of(dataset)}"
    return dataclasses.replace(
        part, name=name, upto=endless, examples=examples, alone=lambda given: batched(mapped(given))
    )


def _alone(dataset: tf.data.Dataset, functions: list[Any]) -> Apply | None:
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
