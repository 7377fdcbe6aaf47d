"""The collective of one rank."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf


class SoloCollective:
    """See `Collective`; every sum is the rank's own."""

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
