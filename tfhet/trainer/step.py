"""One training step: gradients here, their weighted mean over all ranks, one update.

Ranks run dry at different times, because the data service deals out batches first come, first served. A rank
without data takes part with zeros, and every sum carries the number of examples behind it: the update is the exact mean
over the examples of all ranks, whatever their share, and all ranks learn from the same sum when there is none left.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import tensorflow as tf

from tfhet.clock import SYSTEM, Clock
from tfhet.strategies import Collective
from tfhet.trainer.emulated import EmulatedDevice
from tfhet.trainer.loss_scale import LossScale

Batch = tuple[tf.Tensor, tf.Tensor]

NUMBERS = tf.TensorSpec([None], tf.int64)
"""Labels that are class numbers."""


def shares(classes: int) -> tf.TensorSpec:
    """Labels that say of each class how much of it an example is, as `one_hot` and `mixup` make them."""
    return tf.TensorSpec([None, classes], tf.float32)


class Accelerator(Protocol):
    """What consumes batches."""

    learns: bool
    """Whether loss and correct answers mean anything."""
    idle_s: float
    """Seconds for which it had nothing to do before the last step began; infinite where nobody can tell."""
    copied_s: float
    """Seconds spent so far on bringing batches to the device, in the type that the model takes."""
    allreduce_s: Any
    """A number, which may still be under way: of the last step the seconds from when this rank's part of the sums was
    there to when the sums were; NaN where nobody can tell."""

    def accumulate(self, batch: Batch) -> None:
        """Takes a batch whose gradients are to be added to those of the next `step`."""

    def step(self, batch: Batch | None, stop: bool = False) -> Any:
        """One step of all ranks; None: this rank has no batch. Returns [4] numbers, which may still be under way:
        examples, loss sum, correct answers of all ranks since the last step, and how many ranks say `stop`. No
        examples: every rank is dry, and nothing was changed."""

    def evaluate(self, batch: Batch) -> Any:
        """The first three of these numbers, of one batch on this rank, without learning from it."""


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
        """labels: what they are like, NUMBERS or `shares(classes)`."""
        self.copied_s = 0.0
        self.allreduce_s: Any = 0.0
        self._clock = clock
        self.model = model
        self._labels = labels
        self.optimizer = optimizer
        self.loss_scale = LossScale() if loss_scaling else None
        self._collective = collective
        self._variables = model.trainable_variables
        optimizer.build(self._variables)
        self._held = [tf.Variable(tf.zeros_like(v), trainable=False) for v in self._variables] if accumulate else []
        self._held_counts = tf.Variable(tf.zeros([3]), trainable=False)
        # One graph for every size of batch: the last of an epoch is smaller, a dry rank's is empty, and building
        # ResNet-50's graph a second time takes 10 s on one core.
        signature = [
            tf.TensorSpec([None, *model.input_shape[1:]], tf.float32),
            labels,
        ]
        self._accumulate = tf.function(self._accumulated, signature)
        self._step = tf.function(self._stepped, [*signature, tf.TensorSpec([], tf.float32)])
        self._evaluate = tf.function(self._evaluated, signature)

    def variables(self) -> list[tf.Variable]:
        """All that must be equal on every rank."""
        scale = self.loss_scale.variables if self.loss_scale else ()
        return [*self.model.variables, *self.optimizer.variables, *scale]

    def state(self) -> dict[str, Any]:
        """What holds them, by name, as a checkpoint writes it."""
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
        batch = self._typed(batch) if batch else self._nothing()
        sums, allreduce_s = self._step(*batch, tf.constant(float(stop)))
        if self._collective.size > 1:
            self.allreduce_s = allreduce_s if self._tells_allreduce else math.nan
        return sums

    def evaluate(self, batch: Batch) -> Any:
        return self._evaluate(*self._typed(batch))

    def average_statistics(self) -> None:
        """Makes what is not trained equal on all ranks (the moving statistics of batch normalisation): their mean."""
        moving = [v for v in self.model.non_trainable_variables if tf.as_dtype(v.dtype).is_floating]
        totals = self._collective.sum([tf.convert_to_tensor(v) for v in moving], "statistics")
        for variable, total in zip(moving, totals, strict=True):
            variable.assign(total / self._collective.size)

    def _nothing(self) -> Batch:
        return tf.zeros([0, *self.model.input_shape[1:]]), tf.zeros([0, *self._labels.shape[1:]], self._labels.dtype)

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
    def _tells_allreduce(self) -> bool:
        # On a GPU, what is computed is not there yet when its operation is done.
        return self._collective.size > 1 and not tf.config.list_logical_devices("GPU")

    def _summed(self, tensors: Sequence[tf.Tensor]) -> tuple[list[tf.Tensor], tf.Tensor]:
        """The sums over all ranks, and the seconds from the last of our tensors to the last sum, where that is told."""
        if not self._tells_allreduce:
            return self._collective.sum(tensors, "step"), tf.constant(0.0)
        ready_s = _time_after(tensors)
        sums = self._collective.sum(tensors, "step")
        return sums, tf.cast(_time_after(sums) - ready_s, tf.float32)

    def _gradients(self, images: tf.Tensor, labels: tf.Tensor) -> tuple[tf.Tensor, list[tf.Tensor]]:
        with tf.GradientTape() as tape:
            probabilities = self.model(images, training=True)
            counts = _counts(probabilities, labels)
            loss = self.loss_scale.scaled(counts[1]) if self.loss_scale else counts[1]
        gradients = tape.gradient(loss, self._variables)
        return tf.stack(counts), [tf.convert_to_tensor(gradient) for gradient in gradients]

    def _update(self, gradients: Sequence[tf.Tensor]) -> None:
        bearable = True
        if self.loss_scale:
            gradients = self.loss_scale.unscaled(gradients)
            bearable = self.loss_scale.admits(gradients)
        if bearable:
            self.optimizer.apply_gradients(zip(gradients, self._variables, strict=True))

    def _evaluated(self, images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        return tf.stack(_counts(self.model(images, training=False), labels))


class EmulatedAccelerator:
    """A step that takes a given time and no CPU: studies input pipelines on a machine without a GPU.

    As a GPU does, it works while this process goes on: see EmulatedDevice.
    """

    learns = False

    def __init__(self, step_s: float, collective: Collective, clock: Clock = SYSTEM, file: Path | None = None):
        """file: read before each step; where it is there, and holds a number, that is the step in milliseconds."""
        self.step_s = step_s
        self.idle_s = self.copied_s = self.allreduce_s = 0.0
        self._collective = collective
        self._clock = clock
        self._file = file
        self._device = EmulatedDevice(clock)
        self._held = 0.0

    def accumulate(self, batch: Batch) -> None:
        self._begin()
        self._held += float(batch[1].shape[0])

    def step(self, batch: Batch | None, stop: bool = False) -> Any:
        count, self._held = self._held + (0.0 if batch is None else float(batch[1].shape[0])), 0.0
        if batch is not None:
            self._begin()
        else:
            self._device.finish()
        ready_s = self._clock.monotonic()
        total, votes = self._collective.total([count, float(stop)], "emulated")
        self.allreduce_s = self._clock.monotonic() - ready_s
        return total, 0.0, 0.0, votes

    def evaluate(self, batch: Batch) -> Any:
        return float(batch[1].shape[0]), 0.0, 0.0

    def _begin(self) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError, ValueError):
                self.step_s = max(0.0, float(self._file.read_text(encoding="ascii"))) / 1e3
        self._device.begin(self.step_s)
        self.idle_s = self._device.idle_s


def _time_after(tensors: Sequence[tf.Tensor]) -> tf.Tensor:
    """Seconds since 1970, float64 [], once all of the tensors are there."""
    with tf.control_dependencies(tensors):
        return tf.timestamp()


def _counts(probabilities: tf.Tensor, labels: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Examples, sum of the cross-entropy, number of right answers (the class of the largest share); float32 []."""
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
