"""The parts of a declared pipeline or plain data set, as data sets to measure."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace

import tensorflow as tf

from tfhet.pipeline import Cut, Pipeline, local_part, remote_part
from tfhet.profile.anatomy import Apply, applied_alone, examples_in, kind_of, names_of, ops_of, transformations
from tfhet.profile.spans import spans_of

READING = "read, parse and batch"
_SOURCES = ("Interleave", "FlatMap", "ParallelInterleave")
"""Transformations that belong to the source: before the last one, elements are file names or the like."""


@dataclass(frozen=True)
class PipelinePart:
    """A step of a declared pipeline, or one transformation of a plain data set."""

    name: str
    """Unique name in tables."""
    upto: tf.data.Dataset
    """The endless pipeline up to and including this part."""
    examples: int = 1
    alone: Apply | None = None
    """Applies only this part to elements of the previous part; None if impossible."""
    idle: Apply = lambda dataset: dataset
    """The overhead of `alone` without its work, which is subtracted."""
    kind: str = ""
    ops: frozenset[str] = frozenset()
    parallel: bool | None = None
    """Whether a map has `num_parallel_calls`; None for other transformations."""


def parts_of_pipeline(pipeline: Pipeline) -> list[PipelinePart]:
    """Returns the parts, in one process and on one thread: the source, and the spans of `spans_of`."""
    batch = pipeline.batch_size
    parts = [PipelinePart(READING, remote_part(pipeline, None, Cut(0), threads=1), batch, kind="Source")]
    for name, begin, end in spans_of(pipeline):
        upto = remote_part(pipeline, None, Cut(end), threads=1)
        alone = functools.partial(local_part, pipeline, cut=Cut(begin), threads=1, end=end)
        parts.append(PipelinePart(name, upto, batch, alone, _idle, kind="Stage"))
    return parts


def _idle(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Returns the iterators without a stage, which the whole pipeline has once."""
    return dataset.map(lambda element: element, num_parallel_calls=1).prefetch(2)


def parts_of_dataset(dataset: tf.data.Dataset) -> list[PipelinePart]:
    """Returns a part per transformation; a data set with several inputs is a source. Raises UsageError for none."""
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
        alone = applied_alone(each, functions) if number else None
        parallel = kind == "ParallelMap" if kind.endswith("Map") else None
        parts.append(PipelinePart(" ".join(words), endless, examples, alone, kind=kind, ops=ops, parallel=parallel))
    return parts


def _with_batch(part: PipelinePart, dataset: tf.data.Dataset, endless: tf.data.Dataset, examples: int) -> PipelinePart:
    """Joins a parallel map and its batch, which tf.data runs as one."""
    mapped, batched = part.alone, applied_alone(dataset, [])
    assert mapped is not None and batched is not None
    name, both = f"{part.name}, {kind_of(dataset)}", lambda given: batched(mapped(given))
    return replace(part, name=name, upto=endless, examples=examples, alone=both)
