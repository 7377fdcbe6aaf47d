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


def __getattr__(name: str) -> Any:
    """Returns a name of Horovod: `__init__.pyi` lists those that work under both."""
    return getattr(hvd, name)


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
