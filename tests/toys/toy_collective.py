"""The toy strategy's collective: every operation is one exchange of what all ranks have."""

from __future__ import annotations

import socket
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import toy_wire


class ToyCollective:
    """See `Collective`."""

    def __init__(self, address: tuple[str, int], rank: int, size: int, local_rank: int):
        self.rank, self.size, self.local_rank = rank, size, local_rank
        self._connection = socket.create_connection(address)
        self._lock = threading.Lock()

    def sum(self, tensors: Sequence[tf.Tensor], name: str) -> list[tf.Tensor]:
        tensors = [tf.convert_to_tensor(tensor) for tensor in tensors]

        def add(*mine: np.ndarray) -> list[np.ndarray]:
            return [np.sum(parts, axis=0, dtype=parts[0].dtype) for parts in zip(*self._all(name, mine), strict=True)]

        sums = tf.numpy_function(add, tensors, [tensor.dtype for tensor in tensors])
        return [tf.ensure_shape(one, tensor.shape) for one, tensor in zip(sums, tensors, strict=True)]

    def broadcast(self, variables: Sequence[tf.Variable]) -> None:
        values = self._all("broadcast", [variable.numpy() for variable in variables])[0]
        for variable, value in zip(variables, values, strict=True):
            variable.assign(value)

    def total(self, values: Sequence[float], name: str) -> list[float]:
        return [float(sum(parts)) for parts in zip(*self._all(name, list(values)), strict=True)]

    def gather(self, values: np.ndarray, name: str) -> np.ndarray:
        return np.concatenate(self._all(name, np.asarray(values, np.int64)))

    def shutdown(self) -> None:
        self._connection.close()

    def _all(self, name: str, value: Any) -> list[Any]:
        with self._lock:
            toy_wire.send(self._connection, (self.rank, self.size, name, value))
            return toy_wire.receive(self._connection)
