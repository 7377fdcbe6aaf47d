"""torch.distributed as the collective, over Gloo in the memory of the CPU: for readers, counts and an emulated model.
Each sum of gradients leaves TensorFlow's graph: use Horovod to train with TensorFlow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tfhet.errors import UsageError
from tfhet.extras import needed

if TYPE_CHECKING:
    import tensorflow as tf


class TorchCollective:
    """The ranks that tfhet's launcher or torchrun started. Raises UsageError if they are not `size`."""

    def __init__(self, size: int):
        with needed("--strategy torch"):
            import torch
            import torch.distributed as dist
        if not dist.is_initialized():
            try:
                dist.init_process_group("gloo")
            except ValueError as error:  # a variable is missing
                raise UsageError(f"the ranks of --strategy torch were started by something else: {error}") from None
        self._torch, self._dist = torch, dist
        self.rank: int = dist.get_rank()
        self.size: int = dist.get_world_size()
        if self.size != size:
            self.shutdown()
            raise UsageError(f"the job has {size} ranks and PyTorch sees {self.size}: WORLD_SIZE disagrees")

    def sum(self, tensors: Sequence[tf.Tensor], name: str) -> list[tf.Tensor]:
        import tensorflow as tf

        given = [tf.convert_to_tensor(tensor) for tensor in tensors]
        sums = tf.nest.flatten(tf.numpy_function(self._summed, given, [tensor.dtype for tensor in given]))
        return [tf.ensure_shape(found, tensor.shape) for found, tensor in zip(sums, given, strict=True)]

    def broadcast(self, variables: Sequence[tf.Variable]) -> None:
        for variable in variables:
            value = self._torch.from_numpy(np.array(variable.numpy()))
            self._dist.broadcast(value, 0)
            variable.assign(value.numpy())

    def total(self, values: Sequence[float], name: str) -> list[float]:
        return [float(value) for value in self._summed(np.array(values, np.float64))[0]]

    def gather(self, values: np.ndarray, name: str) -> np.ndarray:
        lengths = np.zeros(self.size, np.int64)
        lengths[self.rank] = len(values)
        (lengths,) = self._summed(lengths)
        mine = np.zeros(lengths.max(), np.int64)
        mine[: len(values)] = values
        every = [self._torch.empty(len(mine), dtype=self._torch.int64) for _ in lengths]
        self._dist.all_gather(every, self._torch.from_numpy(mine))
        return np.concatenate([one.numpy()[:length] for one, length in zip(every, lengths, strict=True)])

    def alltoall(self, values: np.ndarray, counts: np.ndarray, name: str) -> np.ndarray:
        given, sent = np.array(values, np.int64), [int(count) for count in counts]
        asked = self._torch.empty(self.size, dtype=self._torch.int64)
        self._dist.all_to_all_single(asked, self._torch.tensor(sent))
        found = self._torch.empty(int(asked.sum()), dtype=self._torch.int64)
        self._dist.all_to_all_single(found, self._torch.from_numpy(given), asked.tolist(), sent)
        return found.numpy()

    def shutdown(self) -> None:
        self._dist.destroy_process_group()

    def _summed(self, *arrays: np.ndarray) -> list[np.ndarray]:
        """Sums each array over the ranks, with equal bits on all."""
        sums = [self._torch.from_numpy(np.array(array)) for array in arrays]
        for each in sums:
            self._dist.all_reduce(each)
        return [each.numpy() for each in sums]
