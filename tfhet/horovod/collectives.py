"""Horovod's functions that work alike under Keras 2 and Keras 3, and `allreduce` for values that are not tensors."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tfhet.errors import UsageError

try:
    import horovod.tensorflow as hvd
except ImportError as error:
    raise UsageError(
        f"tfhet.horovod needs Horovod built for TensorFlow {tf.__version__}: pip install tfhet[horovod] ({error})"
    ) from None
from horovod.tensorflow import (
    Adasum as Adasum,
    Average as Average,
    Compression as Compression,
    Max as Max,
    Min as Min,
    ProcessSet as ProcessSet,
    Product as Product,
    Sum as Sum,
    add_process_set as add_process_set,
    allgather as allgather,
    allgather_object as allgather_object,
    alltoall as alltoall,
    broadcast as broadcast,
    broadcast_object as broadcast_object,
    ccl_built as ccl_built,
    cross_rank as cross_rank,
    cross_size as cross_size,
    cuda_built as cuda_built,
    ddl_built as ddl_built,
    global_process_set as global_process_set,
    gloo_built as gloo_built,
    gloo_enabled as gloo_enabled,
    grouped_allgather as grouped_allgather,
    grouped_allreduce as grouped_allreduce,
    grouped_reducescatter as grouped_reducescatter,
    init as init,
    is_homogeneous as is_homogeneous,
    is_initialized as is_initialized,
    join as join,
    local_rank as local_rank,
    local_rank_op as local_rank_op,
    local_size as local_size,
    local_size_op as local_size_op,
    mpi_built as mpi_built,
    mpi_enabled as mpi_enabled,
    mpi_threads_supported as mpi_threads_supported,
    nccl_built as nccl_built,
    rank as rank,
    rank_op as rank_op,
    reducescatter as reducescatter,
    remove_process_set as remove_process_set,
    rocm_built as rocm_built,
    shutdown as shutdown,
    size as size,
    size_op as size_op,
    start_timeline as start_timeline,
    stop_timeline as stop_timeline,
)


def allreduce(value: Any, *, name: str | None = None, **options: Any) -> Any:
    """Reduces a value over the ranks, by default to the average.

    Args:
        value: A tensor, a variable, a `tf.IndexedSlices`, or what `tf.convert_to_tensor` accepts, of the same shape
            and dtype on every rank.
        name: Name of the operation, the same on every rank.
        **options: Other arguments of `horovod.tensorflow.allreduce`, such as `op` and `process_set`.

    Returns:
        A tensor, or `tf.IndexedSlices`, of the same shape and dtype.
    """
    tensor = value if isinstance(value, tf.IndexedSlices) else tf.convert_to_tensor(value)
    return hvd.allreduce(tensor, name=name, **options)
