"""One part of an input pipeline, as data sets that can be measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import tensorflow as tf

PYTHON_OPS = ("PyFunc", "PyFuncStateless", "EagerPyFunc")


@dataclass(frozen=True)
class PipelinePart:
    """A step of a declared pipeline, or one transformation of a plain data set."""

    name: str
    """Name in tables, different for each part of a pipeline."""
    upto: tf.data.Dataset
    """The pipeline up to and including this part, without end."""
    examples: int = 1
    """Number of examples in one element of `upto`."""
    alone: Callable[[tf.data.Dataset], tf.data.Dataset] | None = None
    """Function that applies this part alone to the elements of the part before; None where that is impossible."""
    idle: Callable[[tf.data.Dataset], tf.data.Dataset] | None = None
    """Function with the overhead of `alone` but not its work, which is subtracted; None for handing elements over."""
    kind: str = ""
    """Kind of transformation in a plain data set: `Map`, `Batch`."""
    ops: frozenset[str] = frozenset()
    """Kinds of graph operations in its functions."""
    parallel: bool | None = None
    """Whether a map has `num_parallel_calls`; None for other transformations."""

    @property
    def runs_python(self) -> bool:
        """Whether one of its functions calls Python for every element."""
        return bool(self.ops & set(PYTHON_OPS))
