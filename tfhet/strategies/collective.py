"""The collective: what the ranks of a training do together, in tfhet's own trainer and in readers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    import tensorflow as tf


class Collective(Protocol):
    """Operations that every rank takes part in, in the same order."""

    rank: int
    size: int
    local_rank: int

    def sum(self, tensors: Sequence[tf.Tensor], name: str) -> list[tf.Tensor]:
        """Each tensor summed over the ranks. Works in a graph; `name` must be the same on all ranks."""

    def broadcast(self, variables: Sequence[tf.Variable]) -> None:
        """Gives the variables of rank 0 to all ranks."""

    def total(self, values: Sequence[float], name: str) -> list[float]:
        """Each number summed over the ranks, outside a graph."""

    def gather(self, values: np.ndarray, name: str) -> np.ndarray:
        """The one-dimensional int64 arrays of all ranks, of any lengths, in the order of the ranks, on every rank."""

    def shutdown(self) -> None:
        """Leaves the collective, after which none of the above may be called."""
