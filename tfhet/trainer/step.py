"""One training step: gradients here, their weighted mean over all ranks, one update.

Ranks run dry at different times, because the data service deals out batches first come, first served. A rank
without data takes part with zeros, and every sum carries its number of examples: the update is the exact mean over the
examples of all ranks, whatever their share, and all ranks learn from the same sum that none is left.
"""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Sequence
from typing import Any, Protocol

import tensorflow as tf

from tfhet.clock import SYSTEM, Clock
from tfhet.strategies import Collective

Batch = tuple[tf.Tensor, tf.Tensor]

NUMBERS = tf.TensorSpec([None], tf.int64)
"""Labels that are class numbers."""


def shares(classes: int) -> tf.TensorSpec:
    """Labels that give the share of each class in an example, as `one_hot` and `mixup` make them."""
    return tf.TensorSpec([None, classes], tf.float32)


class Accelerator(Protocol):
    """Consumer of batches: a model on a device, or an emulation of both."""

    learns: bool
    """Whether loss and correct answers mean anything."""
    idle_s: float
    """Seconds without work before the last step began; infinite where that is not known."""
    copied_s: float
    """Seconds spent so far on bringing batches to the device, in the type that the model takes."""
    allreduce_s: Any
    """Seconds of the last step from this rank's part of the sums to the sums; NaN if unknown. It may be a tensor."""

    def accumulate(self, batch: Batch) -> None:
        """Takes a batch whose gradients are added to the gradients of the next `step`."""

    def step(self, batch: Batch | None, stop: bool = False) -> Any:
        """Takes one step with all ranks. batch: None if this rank has no examples left. Returns four numbers, which may
        still be computing: examples, loss sum and correct answers of all ranks since the last step, and the number of
        ranks that say `stop`. Without examples on any rank nothing changes."""

    def evaluate(self, batch: Batch) -> Any:
        """Examples, loss sum and correct answers of one batch on this rank, without learning from it."""


INITIAL = 2.0**15
GROWTH_STEPS = 2000
"""Number of consecutive finite updates after which the scale doubles."""


class LossScale(tf.Module):
    """Factor of the loss before its float16 gradients are taken, so that small ones do not vanish. It halves when a
    gradient is not finite, and that update is left out. The rules are as in Keras' LossScaleOptimizer, whose
    interface differs between Keras 2 and 3."""

    def __init__(self) -> None:
        super().__init__()
        self.value = tf.Variable(INITIAL, trainable=False)
        self.updates = tf.Variable(0, trainable=False)
        """Number of updates since the scale last changed."""

    def unscaled(self, gradients: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """The gradients of the loss itself."""
        return [gradient / tf.cast(self.value, gradient.dtype) for gradient in gradients]

    def admits(self, gradients: Sequence[tf.Tensor]) -> tf.Tensor:
        """Whether all gradients are finite, bool []; adapts the scale."""
        finite = tf.reduce_all([tf.reduce_all(tf.math.is_finite(gradient)) for gradient in gradients])
        grows = tf.logical_and(finite, self.updates + 1 >= GROWTH_STEPS)
        larger = tf.where(tf.math.is_finite(2.0 * self.value), 2.0 * self.value, self.value)
        held = tf.where(finite, self.value, tf.maximum(self.value / 2.0, 1.0))
        self.value.assign(tf.where(grows, larger, held))
        self.updates.assign(tf.where(tf.logical_and(finite, tf.logical_not(grows)), self.updates + 1, 0))
        return finite


class KerasAccelerator:
    """A Keras model and its optimizer. Images [batch, height, width, channels]; labels: class numbers [batch], or
    shares of the classes, float [batch, classes]."""

    learns = True
    idle_s = math.inf

    def __init__(
        self,
        model: tf.keras.Model,
        optimizer: Any,
        collective: Collective,
        *,
        labels: tf.TensorSpec = NUMBERS,
        loss_scaling: bool = False,
        accumulate: bool = False,
        clock: Clock = SYSTEM,
    ):
        """labels: NUMBERS or `shares(classes)`."""
        self.copied_s = 0.0
        self.allreduce_s: Any = 0.0
        self.model, self.optimizer = model, optimizer
        self.loss_scale = LossScale() if loss_scaling else None
        self._labels, self._collective, self._clock = labels, collective, clock
        self._variables = model.trainable_variables
        optimizer.build(self._variables)
        self._held = [tf.Variable(tf.zeros_like(v), trainable=False) for v in self._variables] if accumulate else []
        self._held_counts = tf.Variable(tf.zeros([3]), trainable=False)
        # One graph for every size of batch: the last of an epoch is smaller, a dry rank's is empty, and building
        # ResNet-50's graph a second time takes 10 s on one core.
        signature = [tf.TensorSpec([None, *model.input_shape[1:]], tf.float32), labels]
        self._accumulate = tf.function(self._accumulated, signature)
        self._step = tf.function(self._stepped, [*signature, tf.TensorSpec([], tf.float32)])
        self._evaluate = tf.function(self._evaluated, signature)

    def variables(self) -> list[tf.Variable]:
        """The variables that must be equal on every rank."""
        scale = self.loss_scale.variables if self.loss_scale else ()
        return [*self.model.variables, *self.optimizer.variables, *scale]

    def state(self) -> dict[str, Any]:
        """The objects that hold `variables`, by their names in a checkpoint."""
        scale = {"loss_scale": self.loss_scale} if self.loss_scale else {}
        return {"model": self.model, "optimizer": self.optimizer, **scale}

    def digest(self) -> str:
        """Hex SHA-256 of `variables()`, bit for bit: equal on all ranks, or the ranks have drifted apart."""
        digest = hashlib.sha256()
        for variable in self.variables():
            digest.update(tf.io.serialize_tensor(tf.convert_to_tensor(variable)).numpy())
        return digest.hexdigest()

    def accumulate(self, batch: Batch) -> None:
        self._accumulate(*self._typed(batch))

    def step(self, batch: Batch | None, stop: bool = False) -> Any:
        shape, kind = [0, *self.model.input_shape[1:]], self._labels
        batch = self._typed(batch) if batch else (tf.zeros(shape), tf.zeros([0, *kind.shape[1:]], kind.dtype))
        sums, allreduce_s = self._step(*batch, tf.constant(float(stop)))
        if self._collective.size > 1:
            self.allreduce_s = allreduce_s if self._times_allreduce else math.nan
        return sums

    def evaluate(self, batch: Batch) -> Any:
        return self._evaluate(*self._typed(batch))

    def average_statistics(self) -> None:
        """Gives all ranks the mean of what is not trained (the moving statistics of batch normalisation)."""
        moving = [v for v in self.model.non_trainable_variables if tf.as_dtype(v.dtype).is_floating]
        totals = self._collective.sum([tf.convert_to_tensor(v) for v in moving], "statistics")
        for variable, total in zip(moving, totals, strict=True):
            variable.assign(total / self._collective.size)

    def _typed(self, batch: Batch) -> Batch:
        began_s = self._clock.monotonic()
        typed = tf.cast(batch[0], tf.float32), tf.cast(batch[1], self._labels.dtype)
        self.copied_s += self._clock.monotonic() - began_s
        return typed

    def _accumulated(self, images: tf.Tensor, labels: tf.Tensor) -> None:
        counts, gradients = self._gradients(images, labels)
        self._held_counts.assign_add(counts)
        for held, gradient in zip(self._held, gradients, strict=True):
            held.assign_add(gradient)

    def _stepped(self, images: tf.Tensor, labels: tf.Tensor, stop: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        counts, gradients = tf.cond(
            tf.shape(images)[0] > 0,
            lambda: self._gradients(images, labels),
            lambda: (tf.zeros([3]), [tf.zeros_like(v) for v in self._variables]),
        )
        if self._held:
            counts += self._held_counts
            gradients = [gradient + held for gradient, held in zip(gradients, self._held, strict=True)]
            for held in [*self._held, self._held_counts]:
                held.assign(tf.zeros_like(held))
        counts = tf.concat([counts, stop[tf.newaxis]], 0)
        (counts, *gradients), allreduce_s = self._summed([counts, *gradients])
        if counts[0] > 0:
            self._update([gradient / tf.cast(counts[0], gradient.dtype) for gradient in gradients])
        return counts, allreduce_s

    @functools.cached_property
    def _times_allreduce(self) -> bool:
        # On a GPU, an operation is done before its result is there.
        return self._collective.size > 1 and not tf.config.list_logical_devices("GPU")

    def _summed(self, tensors: Sequence[tf.Tensor]) -> tuple[list[tf.Tensor], tf.Tensor]:
        """The sums over all ranks, and the seconds from this rank's last tensor to the last sum, where measured."""
        if not self._times_allreduce:
            return self._collective.sum(tensors, "step"), tf.constant(0.0)
        ready_s = _time_after(tensors)
        sums = self._collective.sum(tensors, "step")
        return sums, tf.cast(_time_after(sums) - ready_s, tf.float32)

    def _gradients(self, images: tf.Tensor, labels: tf.Tensor) -> tuple[tf.Tensor, list[tf.Tensor]]:
        with tf.GradientTape() as tape:
            probabilities = self.model(images, training=True)
            counts = _counts(probabilities, labels)
            loss = counts[1] * self.loss_scale.value if self.loss_scale else counts[1]
        gradients = tape.gradient(loss, self._variables)
        return tf.stack(counts), [tf.convert_to_tensor(gradient) for gradient in gradients]

    def _update(self, gradients: Sequence[tf.Tensor]) -> None:
        is_finite = True
        if self.loss_scale:
            gradients = self.loss_scale.unscaled(gradients)
            is_finite = self.loss_scale.admits(gradients)
        if is_finite:
            self.optimizer.apply_gradients(zip(gradients, self._variables, strict=True))

    def _evaluated(self, images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        return tf.stack(_counts(self.model(images, training=False), labels))


def _time_after(tensors: Sequence[tf.Tensor]) -> tf.Tensor:
    """Time at which all of the tensors are there: seconds since 1970, float64 []."""
    with tf.control_dependencies(tensors):
        return tf.timestamp()


def _counts(probabilities: tf.Tensor, labels: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Examples, sum of the cross-entropy, number of correct answers (the class of the largest share); float32 []."""
    probabilities = tf.cast(probabilities, tf.float32)
    if labels.dtype.is_floating:
        losses = tf.keras.losses.categorical_crossentropy(labels, probabilities)
        answers = tf.argmax(labels, axis=1)
    else:
        losses = tf.keras.losses.sparse_categorical_crossentropy(labels, probabilities)
        answers = labels
    loss = tf.reduce_sum(losses)
    right = tf.equal(tf.argmax(probabilities, axis=1, output_type=answers.dtype), answers)
    return tf.cast(tf.shape(labels)[0], tf.float32), loss, tf.reduce_sum(tf.cast(right, tf.float32))
