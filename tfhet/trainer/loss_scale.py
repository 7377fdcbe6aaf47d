"""What the loss is multiplied by before its float16 gradients are taken, so that the small ones do not vanish."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

INITIAL = 2.0**15
GROWTH_STEPS = 2000
"""So many updates in a row, and the scale doubles."""


class LossScale(tf.Module):
    """As large as the gradients bear: it halves when one of them is not finite, and that update is left out. The rules
    of Keras' LossScaleOptimizer, whose interface is another one in Keras 2 than in Keras 3."""

    def __init__(self) -> None:
        super().__init__()
        self.value = tf.Variable(INITIAL, trainable=False)
        self.updates = tf.Variable(0, trainable=False)
        """Since the scale last changed."""

    def scaled(self, loss: tf.Tensor) -> tf.Tensor:
        """The loss to take the gradients of."""
        return loss * self.value

    def unscaled(self, gradients: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """The gradients of the loss itself."""
        return [gradient / tf.cast(self.value, gradient.dtype) for gradient in gradients]

    def admits(self, gradients: Sequence[tf.Tensor]) -> tf.Tensor:
        """Whether all of them are finite, bool []; the scale learns from it."""
        finite = tf.reduce_all([tf.reduce_all(tf.math.is_finite(gradient)) for gradient in gradients])
        grows = tf.logical_and(finite, self.updates + 1 >= GROWTH_STEPS)
        larger = tf.where(tf.math.is_finite(2.0 * self.value), 2.0 * self.value, self.value)
        held = tf.where(finite, self.value, tf.maximum(self.value / 2.0, 1.0))
        self.value.assign(tf.where(grows, larger, held))
        self.updates.assign(tf.where(tf.logical_and(finite, tf.logical_not(grows)), self.updates + 1, 0))
        return finite
