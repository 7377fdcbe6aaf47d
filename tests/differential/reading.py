"""What a process reads of a data set: its examples and batches, pass by pass."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from differential.row import Row

PASSES = 4
READ, REFUSED, FAILED, HUNG = "read", "refused", "failed", "hung"


@dataclass
class Reading:
    """The passes of one process over one data set."""

    outcome: str = READ
    text: str = ""
    """The error."""
    spec: str = ""
    cardinality: int = 0
    passes: list[dict[str, int]] = field(default_factory=list)
    """How often each example came, by pass."""
    batches: list[int] = field(default_factory=list)
    """Number of elements by pass."""

    def add(self, elements: Iterable[Any], row: Row) -> None:
        """Reads one pass."""
        found: Counter[str] = Counter()
        count = 0
        for element in elements:
            found.update(examples(element, row))
            count += 1
        self.passes.append(dict(found))
        self.batches.append(count)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def examples(element: Any, row: Row) -> list[str]:
    """The examples of an element, each as a short text."""
    import tensorflow as tf

    parts = [_plain(part) for part in tf.nest.flatten(element)]
    rows = [tuple(parts)] if not row.batch else list(zip(*parts, strict=True))
    return [_short(one if row.key is None else row.key(one)) for one in rows]


def _plain(part: Any) -> Any:
    import tensorflow as tf

    if isinstance(part, tf.RaggedTensor):
        return part.to_list()
    if isinstance(part, tf.SparseTensor):
        return tf.sparse.to_dense(part).numpy()
    return part.numpy()


def _short(value: Any) -> str:
    if isinstance(value, tuple):
        return " ".join(map(_short, value))
    value = np.asarray(value) if isinstance(value, np.ndarray) else value
    if not isinstance(value, np.ndarray):
        return str(value)
    if value.size < 4:
        return str(value.tolist())
    return hashlib.sha256(f"{value.dtype}{value.shape}{value.tolist()}".encode()).hexdigest()[:12]
