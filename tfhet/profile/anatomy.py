"""What a data set is made of, step by step: plain values, made by `tfhet.profile.dissection`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class GraphStep:
    """One transformation of a data set."""

    name: str
    """What its function is called, or what it is: `parse`, `Batch`."""
    kind: str
    """`Map`, `ParallelMap`, `Batch`, `Shuffle`, ..."""
    ops: frozenset[str] = frozenset()
    """The kinds of operations in its functions."""
    examples: int = 1
    """In one element behind it."""
    example_bytes: int | None = None
    """Of one example behind it; None where a size is not known."""
    example_values: int | None = None
    """Numbers in one example behind it; None as above."""
    dtypes: tuple[str, ...] = ()
    buffer: int | None = None
    """Elements that a shuffle holds; negative: all."""
    elements: int | None = None
    """That come out of it; None: not known, or no end."""


@dataclass(frozen=True)
class Anatomy:
    """One data set."""

    is_declared: bool
    """Whether it is a Pipeline, whose batching, order and cut are tfhet's own."""
    steps: tuple[GraphStep, ...]
    """From the source on."""
    elements: int | None
    """None: not known, or no end."""
    is_endless: bool
    splits: int | None
    """What dynamic sharding deals out; None: not known, or several sources."""
    sources: int
    graph_bytes: int
    reads_files: bool = False
    python_functions: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    has_fixed_order: bool = False
    """Whether a shuffle has a seed."""
    asserts_cardinality: bool = False
    """Not at its end, where `tfhet.distribute` takes it off."""
    no_tensors: tuple[str, ...] = ()
    """Components of an element that are no tensors: the names of their specs."""
    unknown_shapes: tuple[str, ...] = ()
    """Components of an element without a known number of dimensions."""
