"""The anatomy of a data set: its transformations as plain values, made by `tfhet.profile.dissection`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class GraphStep:
    """One transformation of a data set."""

    name: str
    """Name of its function, or its kind: `parse`, `Batch`."""
    kind: str
    """Kind of transformation: `Map`, `ParallelMap`, `Batch`, `Shuffle`, ..."""
    ops: frozenset[str] = frozenset()
    """Kinds of operations in its functions."""
    examples: int = 1
    """Number of examples in one element of its result."""
    example_bytes: int | None = None
    """Bytes of one example of its result; None where a size is unknown."""
    example_values: int | None = None
    """Number of values in one example of its result; None where a size is unknown."""
    dtypes: tuple[str, ...] = ()
    """Dtypes of the components of its result."""
    buffer: int | None = None
    """Number of elements that a shuffle holds; negative for all."""
    elements: int | None = None
    """Number of elements of its result; None for unknown or endless."""


@dataclass(frozen=True)
class Anatomy:
    """One data set."""

    is_declared: bool
    """Whether it is a Pipeline, for which tfhet chooses batching, order and cut."""
    steps: tuple[GraphStep, ...]
    """Transformations in order; the source comes first."""
    elements: int | None
    """Number of elements; None for unknown or endless."""
    is_endless: bool
    """Whether it repeats without end."""
    splits: int | None
    """Number of splits for dynamic sharding; None for unknown, or for several sources."""
    sources: int
    """Number of sources."""
    graph_bytes: int
    """Size of the serialised graph, in bytes."""
    reads_files: bool = False
    """Whether a source reads files."""
    python_functions: tuple[str, ...] = ()
    """Python functions that the graph calls, which other processes cannot."""
    resources: tuple[str, ...] = ()
    """Tables and variables that the graph uses, which other processes lack."""
    has_fixed_order: bool = False
    """Whether a shuffle has a seed."""
    asserts_cardinality: bool = False
    """Whether it asserts its cardinality before its end; at its end `tfhet.distribute` removes the assertion."""
    no_tensors: tuple[str, ...] = ()
    """Components of an element that are not tensors, by the names of their specs."""
    unknown_shapes: tuple[str, ...] = ()
    """Components of an element without a known number of dimensions."""
