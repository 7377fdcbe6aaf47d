"""The workers of tf.distribute.MultiWorkerMirroredStrategy as a collective. Every operation is an all-reduce of the
strategy's own, called in its replica context, so that it works in a graph of tfhet's trainer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from tfhet.errors import UsageError


class MultiWorkerCollective:
    """The workers of TF_CONFIG, one device of each. Raises UsageError if not `size`, or after a use of TensorFlow."""

    def __init__(self, size: int):
        gpus = tf.config.list_physical_devices("GPU")
        for each in gpus[:1]:
            tf.config.set_visible_devices(each, "GPU")
            tf.config.experimental.set_memory_growth(each, True)
        try:
            self._strategy = tf.distribute.MultiWorkerMirroredStrategy()
        except RuntimeError as error:
            raise UsageError(f"the workers have to be joined before TensorFlow does anything: {error}") from None
        cluster = self._strategy.cluster_resolver
        self.rank: int = cluster.task_id or 0
        self.size: int = self._strategy.num_replicas_in_sync
        if self.size != size:
            raise UsageError(f"the job has {size} ranks, and TF_CONFIG names {self.size} workers")
        self._reduced = tf.function(self._summed, reduce_retracing=True)

    def sum(self, tensors: Sequence[tf.Tensor], name: str) -> list[tf.Tensor]:
        """One all-reduce for all tensors of a type."""
        tensors = [tf.convert_to_tensor(tensor) for tensor in tensors]
        found: dict[int, tf.Tensor] = {}
        for kind in dict.fromkeys(tensor.dtype for tensor in tensors):
            of_kind = [index for index, tensor in enumerate(tensors) if tensor.dtype == kind]
            sizes = [*(tf.size(tensors[index]) for index in of_kind), 1]
            # The last one is there because a reduction of nothing crashes TensorFlow 2.15.1.
            flat = tf.concat([*(tf.reshape(tensors[index], [-1]) for index in of_kind), tf.zeros([1], kind)], 0)
            *sums, _ = tf.split(self._reduced(flat), sizes, num=len(sizes))
            for index, part in zip(of_kind, sums, strict=True):
                found[index] = tf.reshape(part, tf.shape(tensors[index]))
                found[index].set_shape(tensors[index].shape)
        return [found[index] for index in range(len(tensors))]

    def broadcast(self, variables: Sequence[tf.Variable]) -> None:
        values = [tf.convert_to_tensor(variable) for variable in variables]
        given = values if self.rank == 0 else [tf.zeros_like(value) for value in values]
        for variable, value in zip(variables, self.sum(given, "broadcast"), strict=True):
            variable.assign(value)

    def total(self, values: Sequence[float], name: str) -> list[float]:
        return [float(value) for value in self._reduced(tf.constant(values, tf.float64)).numpy()]

    def gather(self, values: np.ndarray, name: str) -> np.ndarray:
        counts = np.zeros(self.size, np.int64)
        counts[self.rank] = len(values)
        counts = self._reduced(tf.constant(counts)).numpy()
        every = np.zeros(counts.sum() + 1, np.int64)
        begin = int(counts[: self.rank].sum())
        every[begin : begin + len(values)] = values
        return np.asarray(self._reduced(tf.constant(every)).numpy())[:-1]

    def shutdown(self) -> None:
        return None

    def _summed(self, flat: tf.Tensor) -> tf.Tensor:
        def run(given: tf.Tensor) -> tf.Tensor:
            value = tf.identity(given)  # on the replica's device: in a graph `given` may have none, and must have one
            return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, value)

        return self._strategy.run(run, (flat,))
