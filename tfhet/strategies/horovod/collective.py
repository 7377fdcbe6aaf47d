"""Horovod as the collective: Gloo on one machine, MPI under mpirun, NCCL for GPU tensors if it was built in."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from tfhet.errors import UsageError


class HorovodCollective:
    """The ranks that mpirun, horovodrun or the tfhet launcher started. Raises UsageError if they are not `size`."""

    def __init__(self, size: int):
        try:
            import horovod.tensorflow as hvd
        except ImportError as error:
            raise UsageError(
                f"this job has {size} ranks, which needs Horovod built for this TensorFlow: pip install tfhet[horovod] "
                f"({error})"
            ) from None
        hvd.init()
        self._hvd = hvd
        self.rank: int = hvd.rank()
        self.size: int = hvd.size()
        if self.size != size:
            hvd.shutdown()
            without = "" if hvd.mpi_built() else "; it was built without MPI, and takes no part in what mpirun starts"
            raise UsageError(
                f"the job has {size} ranks and Horovod sees {self.size}: mpirun or the HOROVOD_* variables disagree "
                f"with the launcher's arguments{without}"
            )
        if gpus := tf.config.list_physical_devices("GPU"):
            own = gpus[hvd.local_rank() % len(gpus)]
            tf.config.set_visible_devices(own, "GPU")
            tf.config.experimental.set_memory_growth(own, True)

    def sum(self, tensors: Sequence[tf.Tensor], name: str) -> list[tf.Tensor]:
        return [
            self._hvd.allreduce(tensor, op=self._hvd.Sum, name=f"{name}.{index}", ignore_name_scope=True)
            for index, tensor in enumerate(tensors)
        ]

    def broadcast(self, variables: Sequence[tf.Variable]) -> None:
        if variables:  # Horovod assigns to variables of TensorFlow; a variable of Keras 3 wraps one
            own = [each if isinstance(each, tf.Variable) else each.value for each in variables]
            self._hvd.broadcast_variables(own, root_rank=0)

    def total(self, values: Sequence[float], name: str) -> list[float]:
        tensor = tf.constant(values, tf.float64)
        return [float(v) for v in self._hvd.allreduce(tensor, op=self._hvd.Sum, name=name).numpy()]

    def gather(self, values: np.ndarray, name: str) -> np.ndarray:
        return np.asarray(self._hvd.allgather(tf.constant(values, tf.int64), name=name).numpy())

    def alltoall(self, values: np.ndarray, counts: np.ndarray, name: str) -> np.ndarray:
        splits = tf.constant(counts, tf.int32)
        return np.asarray(self._hvd.alltoall(tf.constant(values, tf.int64), splits, name)[0].numpy())

    def shutdown(self) -> None:
        self._hvd.shutdown()
