"""`DistributedOptimizer`: its arguments, and which of them work with Keras 3."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import horovod.tensorflow as hvd
import horovod.tensorflow.keras as hvd_keras
import tensorflow as tf

from tfhet.errors import UsageError
from tfhet.horovod.collectives import Average, Compression, global_process_set
from tfhet.horovod.distributed import distribute_optimizer
from tfhet.horovod.keras_version import HAS_KERAS_3
from tfhet.horovod.reduction import Reduction, groups_of


def DistributedOptimizer(
    optimizer: Any,
    name: str | None = None,
    *,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = Compression.none,
    sparse_as_dense: bool = False,
    gradient_predivide_factor: float = 1.0,
    op: Any = Average,
    backward_passes_per_step: int = 1,
    average_aggregated_gradients: bool = False,
    num_groups: int = 0,
    groups: int | Sequence[Sequence[Any]] | None = None,
    process_set: Any = global_process_set,
    scale_local_gradients: bool = True,
) -> Any:
    """Makes an optimizer reduce the gradients over the ranks, before it clips and applies them.

    Under Keras 3 the optimizer itself is changed and returned: it keeps its state, and models with it are saved and
    loaded as before. Under Keras 2 this is `horovod.tensorflow.keras.DistributedOptimizer`.

    Args:
        optimizer: An optimizer of `tf.keras`.
        name: Prefix of the operations' names, the same on every rank.
        device_dense: Device of the reduction of dense gradients.
        device_sparse: Device of the reduction of sparse gradients.
        compression: `Compression.none` or `Compression.fp16`.
        sparse_as_dense: Whether to make dense tensors of sparse gradients.
        gradient_predivide_factor: The average divides by this factor before the sum and by the rest after it.
        op: `Average` or `Sum`.
        backward_passes_per_step: 1 under Keras 3, which has `gradient_accumulation_steps` of its own.
        average_aggregated_gradients: Without effect if `backward_passes_per_step` is 1.
        num_groups: Old name of `groups`.
        groups: Number of groups of gradients that are reduced together, or lists of their variables.
        process_set: The ranks that reduce together.
        scale_local_gradients: True under Keras 3, which has no variables of one rank.

    Returns:
        The distributed optimizer.

    Raises:
        UsageError: If the optimizer or an argument does not work with Keras 3.
    """
    groups = groups or num_groups or None
    if not HAS_KERAS_3:
        # hvd.DistributedOptimizer ignores `op` and `groups` for optimizers of Keras.
        is_of_tensorflow_1 = isinstance(optimizer, tf.compat.v1.train.Optimizer)
        return (hvd if is_of_tensorflow_1 else hvd_keras).DistributedOptimizer(
            optimizer,
            name=name,
            device_dense=device_dense,
            device_sparse=device_sparse,
            compression=compression,
            sparse_as_dense=sparse_as_dense,
            gradient_predivide_factor=gradient_predivide_factor,
            op=op,
            backward_passes_per_step=backward_passes_per_step,
            average_aggregated_gradients=average_aggregated_gradients,
            groups=groups,
            process_set=process_set,
            scale_local_gradients=scale_local_gradients,
        )
    if not isinstance(optimizer, tf.keras.optimizers.Optimizer):
        raise UsageError(
            f"DistributedOptimizer got {type(optimizer).__module__}.{type(optimizer).__name__}, which is no optimizer "
            "of Keras 3: pass one of tf.keras.optimizers, or set TF_USE_LEGACY_KERAS=1 for those of tf_keras"
        )
    if op not in (hvd.Average, hvd.Sum):
        raise UsageError("under Keras, Horovod reduces gradients by op=hvd.Average or op=hvd.Sum only")
    if backward_passes_per_step != 1:
        raise UsageError(
            f"backward_passes_per_step={backward_passes_per_step} does not work with Keras 3: pass "
            f"gradient_accumulation_steps={backward_passes_per_step} to the optimizer, which averages the passes"
        )
    if not scale_local_gradients:
        raise UsageError("scale_local_gradients=False does not work with Keras 3: remove it")
    return distribute_optimizer(
        optimizer,
        Reduction(
            op,
            compression,
            sparse_as_dense,
            gradient_predivide_factor,
            groups_of(groups),
            process_set,
            device_dense,
            device_sparse,
        ),
        name,
    )
