"""The Keras of `tf.keras`: whether it is Keras 3, and its variables as variables of TensorFlow."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tfhet.errors import UsageError

HAS_KERAS_3 = hasattr(tf.keras, "version") and int(tf.keras.version().partition(".")[0]) >= 3

if HAS_KERAS_3 and tf.keras.backend.backend() != "tensorflow":
    raise UsageError(
        f"Keras uses the backend {tf.keras.backend.backend()}, and Horovod reduces tensors of TensorFlow only: set "
        "KERAS_BACKEND=tensorflow before the script imports Keras"
    )


def native(variable: Any) -> tf.Variable:
    """Returns the TensorFlow variable of a variable of Keras 3; other variables as they are."""
    return variable.value if HAS_KERAS_3 and isinstance(variable, tf.keras.Variable) else variable
