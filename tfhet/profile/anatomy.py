"""The transformations of a data set as plain values, read from its graph without running it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from tfhet.datasets import Inspection, check_divisible, inspect, with_inputs
from tfhet.errors import UsageError
from tfhet.pipeline import Cut, Pipeline, is_native, remote_part

_PASSED = ("Options", "Model", "Restructured")

Apply = Callable[[tf.data.Dataset], tf.data.Dataset]
MOST_GRAPH_BYTES = (1 << 31) - 1
"""Maximum bytes of a protobuf message, and so of a graph."""


def transformations(dataset: tf.data.Dataset) -> list[tf.data.Dataset]:
    """Returns the transformations from the source on, without wrappers; one with several inputs is the source."""
    chain = [dataset]
    while len(inputs := chain[0]._inputs()) == 1:
        chain.insert(0, inputs[0])
    if not (kept := [each for each in chain if kind_of(each) not in _PASSED]):
        raise UsageError("this data set has no transformation that could be measured")
    return kept


def kind_of(dataset: tf.data.Dataset) -> str:
    """Returns the kind of a transformation: `Map`, `ParallelMap`, `Batch`, ..."""
    return type(dataset).__name__.strip("_").removesuffix("V2").removesuffix("V1").removesuffix("Dataset")


def examples_in(dataset: tf.data.Dataset, before: int) -> int:
    """Returns the number of examples in an element with full batches. before: in an element of its input."""
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
    """Returns the names of a transformation's Python functions, without lambdas."""
    names = (getattr(function._func, "__name__", type(function._func).__name__) for function in functions)
    return [name for name in names if name != "<lambda>"]


def ops_of(function: Any) -> set[str]:
    """Returns the kinds of all operations of a function and the functions that it calls."""
    definition = function.function.graph.as_graph_def()
    inner = (node.op for called in definition.library.function for node in called.node_def)
    return {node.op for node in definition.node} | set(inner)


def applied_alone(dataset: tf.data.Dataset, functions: list[Any]) -> Apply | None:
    """Returns a function that applies a transformation to another data set; None if impossible."""
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


@dataclass(frozen=True)
class GraphStep:
    name: str
    kind: str
    """`Map`, `ParallelMap`, `Batch`, `Shuffle`, ..."""
    ops: frozenset[str] = frozenset()
    examples: int = 1
    example_bytes: int | None = None
    example_values: int | None = None
    dtypes: tuple[str, ...] = ()
    buffer: int | None = None
    """Elements that a shuffle holds; negative for all."""
    elements: int | None = None
    """Elements of its result; None for unknown or endless."""


@dataclass(frozen=True)
class Anatomy:
    """A data set whose serialised graph has `graph_bytes` bytes."""

    is_declared: bool
    """Whether it is a Pipeline: tfhet chooses batching, order and cut."""
    steps: tuple[GraphStep, ...]
    """Transformations, the source first."""
    elements: int | None
    is_endless: bool
    splits: int | None
    """Splits for dynamic sharding; None for unknown or several sources."""
    graph_bytes: int
    reads_files: bool = False
    python_functions: tuple[str, ...] = ()
    """Python functions that the graph calls and other processes cannot call."""
    resources: tuple[str, ...] = ()
    """Tables and variables that other processes lack."""
    refusal: str = ""
    """Why workers cannot share it; empty if they can."""
    no_tensors: tuple[str, ...] = ()
    """Specs of components that are no tensors."""
    unknown_shapes: tuple[str, ...] = ()
    """Components with an unknown number of dimensions."""


def anatomy_of(target: Pipeline | tf.data.Dataset) -> Anatomy:
    """Returns the anatomy of a data set, or of a pipeline's part on data hosts. Raises UsageError for a pipeline that
    tf.data cannot run."""
    declared = target if isinstance(target, Pipeline) else None
    if declared is not None and is_native(declared):
        raise UsageError("this pipeline runs natively and has no graph of tf.data to examine: use tfhet profile")
    dataset: tf.data.Dataset = target if declared is None else remote_part(declared, None, Cut.smallest(declared))
    cardinality = int(dataset.cardinality())
    found = _inspected(dataset)
    components = tf.nest.flatten(dataset.element_spec)
    tensors = [each for each in components if isinstance(each, tf.TensorSpec)]
    return Anatomy(
        is_declared=declared is not None,
        steps=_steps(dataset),
        elements=cardinality if cardinality >= 0 else None,
        is_endless=cardinality == tf.data.INFINITE_CARDINALITY,
        splits=found.splits if declared is None else declared.source.split_count(),
        graph_bytes=found.graph_bytes,
        reads_files=found.reads_files,
        python_functions=found.python_functions,
        resources=found.resources,
        refusal=_refusal(dataset, found) if declared is None else "",
        no_tensors=tuple(type(each).__name__ for each in components if not isinstance(each, tf.TensorSpec)),
        unknown_shapes=tuple(str(each.name or each.dtype.name) for each in tensors if each.shape.rank is None),
    )


def _refusal(dataset: tf.data.Dataset, found: Inspection) -> str:
    if found.python_functions or found.graph_bytes > MOST_GRAPH_BYTES:
        return ""  # other findings
    try:
        check_divisible(dataset)
    except UsageError as error:
        return str(error)
    return ""


def _inspected(dataset: tf.data.Dataset) -> Inspection:
    """Returns the result of `inspect`, or less if the graph is too large to be serialised."""
    every = list(with_inputs(dataset))
    arrays = [array for each in every for array in getattr(each, "_tensors", ())]
    array_bytes = sum(array.shape.num_elements() * array.dtype.size for array in arrays)
    if array_bytes > MOST_GRAPH_BYTES:
        roots = sum(not each._inputs() for each in every)
        return Inspection(roots, None, False, (), False, False, False, graph_bytes=array_bytes)
    return inspect(dataset)


def _steps(dataset: tf.data.Dataset) -> tuple[GraphStep, ...]:
    steps: list[GraphStep] = []
    examples = 1
    for each in transformations(dataset):
        kind, functions = kind_of(each), each._functions()
        examples = examples_in(each, examples)
        size, values = _example_size(each.element_spec, examples)
        cardinality = int(each.cardinality())
        step = GraphStep(
            name=" ".join(names_of(functions)) or kind,
            kind=kind,
            ops=frozenset(op for function in functions for op in ops_of(function)),
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
    """Returns bytes and number of values of an example; None, None if unknown."""
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
