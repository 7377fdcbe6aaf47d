"""Saved models with distributed optimizers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import horovod.tensorflow.keras as hvd_keras
import tensorflow as tf

from tfhet.errors import UsageError
from tfhet.horovod.collectives import Compression
from tfhet.horovod.keras_version import HAS_KERAS_3
from tfhet.horovod.optimizer import DistributedOptimizer


def load_model(
    filepath: Any,
    custom_optimizers: Iterable[type] | None = None,
    custom_objects: Mapping[str, Any] | None = None,
    compression: Any = Compression.none,
    legacy_opts: bool = False,
) -> Any:
    """Loads a saved model to train it further, with its optimizer's state, distributed.

    Args:
        filepath: Path of the model.
        custom_optimizers: Classes of optimizers that Keras does not know.
        custom_objects: Other classes and functions that Keras does not know, by name.
        compression: See `DistributedOptimizer`.
        legacy_opts: Whether the model has an optimizer of `tf.keras.optimizers.legacy`; False under Keras 3.

    Returns:
        The model. It has no optimizer if it was saved without.
    """
    if not HAS_KERAS_3:
        return hvd_keras.load_model(filepath, custom_optimizers, custom_objects, compression, legacy_opts)
    if legacy_opts:
        raise UsageError("Keras 3 has no legacy optimizers: call load_model without legacy_opts=True")
    known = {each.__name__: each for each in custom_optimizers or ()} | dict(custom_objects or {})
    model = tf.keras.models.load_model(filepath, custom_objects=known)
    if getattr(model, "optimizer", None) is not None:
        DistributedOptimizer(model.optimizer, compression=compression)
        model.jit_compile = False
    return model
