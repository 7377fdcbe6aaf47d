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
    """What tables call it; no two parts of a pipeline share one."""
    upto: tf.data.Dataset
    """Everything up to and with this part, without end."""
    examples: int = 1
    """Examples in one element of `upto`."""
    alone: Callable[[tf.data.Dataset], tf.data.Dataset] | None = None
    """This part applied to the elements of the part before it; None where it cannot stand alone."""
    idle: Callable[[tf.data.Dataset], tf.data.Dataset] | None = None
    """What `alone` costs without the work: subtracted from it; None: handing the elements over."""
    kind: str = ""
    """Of a plain data set, the transformation: `Map`, `Batch`."""
    ops: frozenset[str] = frozenset()
    """The kinds of graph operations in its functions."""
    parallel: bool | None = None
    """Whether a map has `num_parallel_calls`; None where that says nothing."""

    @property
    def runs_python(self) -> bool:
        """Whether a function of it calls Python for every element."""
        return bool(self.ops & set(PYTHON_OPS))
