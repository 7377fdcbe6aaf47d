"""Reads the anatomy of a data set from its graph, without running it."""

from __future__ import annotations

import math
from typing import Any

import tensorflow as tf

from tfhet.placement import Cut, Inspection, Pipeline, inspect, remote_part
from tfhet.profile.anatomy import Anatomy, GraphStep
from tfhet.profile.plain import _chain, _examples, _kind, _names, _ops

MOST_GRAPH_BYTES = (1 << 31) - 1
"""Maximum bytes of a protobuf message, and so of a graph."""


def anatomy_of(target: Pipeline | tf.data.Dataset) -> Anatomy:
    """Returns the anatomy of a data set, or of the part of a pipeline that a data group would run."""
    declared = target if isinstance(target, Pipeline) else None
    dataset: tf.data.Dataset = target if declared is None else remote_part(declared, None, Cut.smallest(declared))
    cardinality = int(dataset.cardinality())
    found = _inspected(dataset)
    components = tf.nest.flatten(dataset.element_spec)
    return Anatomy(
        is_declared=declared is not None,
        steps=_steps(dataset),
        elements=cardinality if cardinality >= 0 else None,
        is_endless=cardinality == tf.data.INFINITE_CARDINALITY,
        splits=found.splits if declared is None else declared.source.split_count(),
        sources=found.roots if declared is None else 1,
        graph_bytes=found.graph_bytes,
        reads_files=found.reads_files,
        python_functions=found.python_functions,
        resources=found.resources,
        has_fixed_order=found.seeded_shuffle,
        asserts_cardinality=found.asserts_cardinality and _kind(dataset) != "AssertCardinality",
        no_tensors=tuple(type(each).__name__ for each in components if not isinstance(each, tf.TensorSpec)),
        unknown_shapes=tuple(
            str(each.name or each.dtype.name)
            for each in components
            if isinstance(each, tf.TensorSpec) and each.shape.rank is None
        ),
    )


def _inspected(dataset: tf.data.Dataset) -> Inspection:
    """Returns what `inspect` finds, or less when the graph is too large to be serialised."""
    arrays = sum(_array_bytes(each) for each in _all(dataset))
    if arrays > MOST_GRAPH_BYTES:
        roots = sum(not each._inputs() for each in _all(dataset))
        return Inspection(roots, None, False, (), False, False, False, graph_bytes=arrays)
    return inspect(dataset)


def _all(dataset: tf.data.Dataset) -> list[tf.data.Dataset]:
    return [dataset, *(each for source in dataset._inputs() for each in _all(source))]


def _array_bytes(dataset: tf.data.Dataset) -> int:
    return sum(each.shape.num_elements() * each.dtype.size for each in getattr(dataset, "_tensors", ()))


def _steps(dataset: tf.data.Dataset) -> tuple[GraphStep, ...]:
    steps: list[GraphStep] = []
    examples = 1
    for each in _chain(dataset):
        kind = _kind(each)
        functions = each._functions()
        examples = _examples(each, kind, examples)
        size, values = _example_size(each.element_spec, examples)
        cardinality = int(each.cardinality())
        step = GraphStep(
            name=" ".join(_names(functions)) or kind,
            kind=kind,
            ops=frozenset(op for function in functions for op in _ops(function.function.graph)),
            examples=examples,
            example_bytes=size,
            example_values=values,
            dtypes=tuple(spec.dtype.name for spec in tf.nest.flatten(each.element_spec) if hasattr(spec, "dtype")),
            buffer=int(tf.get_static_value(each._buffer_size)) if kind == "Shuffle" else None,
            elements=cardinality if cardinality >= 0 else None,
        )
        steps.append(step)
    return tuple(steps)


def _example_size(spec: Any, examples: int) -> tuple[int, int] | tuple[None, None]:
    """Returns the bytes and the number of values of one example; None, None where a size is unknown."""
    size = values = 0
    for each in tf.nest.flatten(spec):
        if not isinstance(each, tf.TensorSpec) or each.dtype == tf.string or each.shape.rank is None:
            return None, None
        shape = each.shape[1:] if examples > 1 and each.shape.rank else each.shape
        if not shape.is_fully_defined():
            return None, None
        values += math.prod(shape)
        size += math.prod(shape) * each.dtype.size
    return size, values
