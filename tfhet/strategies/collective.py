"""The collective: what the ranks of a training do together. `solo` for one rank, `horovod` for several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import tensorflow as tf

from tfhet.errors import UsageError


class Collective(Protocol):
    """Operations that every rank takes part in, in the same order."""

    rank: int
    size: int
    local_rank: int

    def sum(self, tensors: Sequence[tf.Tensor], name: str) -> list[tf.Tensor]:
        """Each tensor summed over the ranks. Works in a graph; `name` must be the same on all ranks."""

    def broadcast(self, variables: Sequence[tf.Variable]) -> None:
        """Gives the variables of rank 0 to all."""

    def total(self, values: Sequence[float], name: str) -> list[float]:
        """Each number summed over the ranks, outside a graph."""

    def gather(self, values: np.ndarray, name: str) -> np.ndarray:
        """All ranks' one-dimensional int64 arrays, of any lengths, one behind the other, on every rank."""

    def shutdown(self) -> None:
        """Leaves. Nothing of the above may be called afterwards."""


class Solo:
    """One rank."""

    rank = 0
    size = 1
    local_rank = 0

    def sum(self, tensors: Sequence[tf.Tensor], name: str) -> list[tf.Tensor]:
        return [tf.convert_to_tensor(tensor) for tensor in tensors]

    def broadcast(self, variables: Sequence[tf.Variable]) -> None:
        return None

    def total(self, values: Sequence[float], name: str) -> list[float]:
        return [float(value) for value in values]

    def gather(self, values: np.ndarray, name: str) -> np.ndarray:
        return np.asarray(values, np.int64)

    def shutdown(self) -> None:
        return None


def collective(kind: str, size: int) -> Collective:
    """The collective for `size` ranks: `kind` is "auto", "solo" or "horovod".

    Raises UsageError for an unknown kind, for solo with several ranks, and where Horovod is wanted and not installed.
    """
    if kind not in ("auto", "solo", "horovod"):
        raise UsageError(f"unknown collective {kind!r}; known: auto, horovod, solo")
    if kind == "solo" or (kind == "auto" and size == 1):
        if size > 1:
            raise UsageError(f"the collective 'solo' is for one rank, and this job has {size}; use horovod")
        return Solo()
    from tfhet.strategies.horovod.collective import Horovod

    return Horovod(size)
