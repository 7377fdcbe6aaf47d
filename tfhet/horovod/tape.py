"""Gradient tapes that reduce gradients over the ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import horovod.tensorflow as hvd
import tensorflow as tf

from tfhet.errors import UsageError
from tfhet.horovod.collectives import Average, Compression, global_process_set
from tfhet.horovod.keras_version import HAS_KERAS_3, native
from tfhet.horovod.reduction import Reduction, groups_of


def DistributedGradientTape(
    gradtape: tf.GradientTape,
    *,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = Compression.none,
    sparse_as_dense: bool = False,
    op: Any = Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: int | Sequence[Sequence[Any]] | None = None,
    process_set: Any = global_process_set,
    scale_local_gradients: bool = True,
) -> Any:
    """Returns a tape whose `gradient` reduces over the ranks.

    Under Keras 2 this is `horovod.tensorflow.DistributedGradientTape`.

    Args:
        gradtape: The tape that recorded.
        device_dense: Device of the reduction of dense gradients.
        device_sparse: Device of the reduction of sparse gradients.
        compression: `Compression.none` or `Compression.fp16`.
        sparse_as_dense: Whether to make dense tensors of sparse gradients.
        op: `Average`, `Sum` or `Adasum`.
        gradient_predivide_factor: The average divides by this factor before the sum and by the rest after it.
        num_groups: Old name of `groups`.
        groups: Number of groups of gradients that are reduced together, or lists of their variables.
        process_set: The ranks that reduce together.
        scale_local_gradients: Whether to divide gradients of variables of this rank by the number of ranks.
    """
    groups = groups or num_groups or None
    if not HAS_KERAS_3:
        return hvd.DistributedGradientTape(
            gradtape,
            device_dense=device_dense,
            device_sparse=device_sparse,
            compression=compression,
            sparse_as_dense=sparse_as_dense,
            op=op,
            gradient_predivide_factor=gradient_predivide_factor,
            groups=groups,
            process_set=process_set,
            scale_local_gradients=scale_local_gradients,
        )
    reduction = Reduction(
        op,
        compression,
        sparse_as_dense,
        gradient_predivide_factor,
        groups_of(groups),
        process_set,
        device_dense,
        device_sparse,
    )
    return _DistributedTape(gradtape, reduction, scale_local_gradients)


def PartialDistributedGradientTape(gradtape: tf.GradientTape, *, local_layers: Any = (), **options: Any) -> Any:
    """Returns a tape whose `gradient` reduces over the ranks, except for layers that each rank trains alone.

    Args:
        gradtape: The tape that recorded.
        local_layers: A layer, or several.
        **options: See `DistributedGradientTape`.
    """
    layers = [local_layers] if isinstance(local_layers, tf.keras.layers.Layer) else list(local_layers or ())
    tape = DistributedGradientTape(gradtape, **options)
    for variable in (each for layer in layers for each in layer.trainable_weights):
        tape.register_local_source(variable)
    return tape


class _DistributedTape(tf.GradientTape):
    """Shares the recording of another tape."""

    def __init__(self, tape: tf.GradientTape, reduction: Reduction, scale_local_gradients: bool):
        if isinstance(tape, _DistributedTape):
            raise UsageError("the tape is distributed already: call DistributedGradientTape once for each tape")
        self.__dict__.update(tape.__dict__)
        self._reduction, self._scales_local, self._local = reduction, scale_local_gradients, set[Any]()

    def register_local_source(self, source: Any) -> None:
        """Makes each rank keep its own gradient of a variable."""
        self._local.add(native(source).ref())

    def gradient(
        self,
        target: Any,
        sources: Any,
        output_gradients: Any = None,
        unconnected_gradients: Any = tf.UnconnectedGradients.NONE,
        use_generic_names: bool = False,
    ) -> Any:
        """Returns the reduced gradients, in the structure of `sources`; see `tf.GradientTape.gradient`.

        `use_generic_names` names the operations by the gradients' positions.
        """
        found = tf.nest.flatten(super().gradient(target, sources, output_gradients, unconnected_gradients))
        variables = [native(each) for each in tf.nest.flatten(sources)]
        is_local = [each.ref() in self._local for each in variables]
        shared = [index for index, local in enumerate(is_local) if not local]
        name = "grad" if use_generic_names else None
        reduced = self._reduction.reduce([found[i] for i in shared], [variables[i] for i in shared], name)
        if self._scales_local:
            found = [_divided(each, self._reduction.process_set.size()) for each in found]
        for index, gradient in zip(shared, reduced, strict=True):
            found[index] = gradient
        return tf.nest.pack_sequence_as(sources, found)


def _divided(gradient: Any, size: int) -> Any:
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(gradient.values / size, gradient.indices, gradient.dense_shape)
    return None if gradient is None else gradient / size
