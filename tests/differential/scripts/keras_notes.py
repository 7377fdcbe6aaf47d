"""Keras models that note what they see, and the usual lines of Horovod."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from notes import EPOCHS, EXAMPLES, Notes, rank


class Seen(tf.keras.metrics.Metric):
    """Counts examples by label."""

    def __init__(self, name: str = "seen", **how: Any):
        super().__init__(name=name, **how)
        self.counts = self.add_weight(name="counts", shape=[EXAMPLES], initializer="zeros")

    def update_state(self, labels: tf.Tensor, predictions: tf.Tensor, sample_weight: Any = None) -> None:
        numbers = tf.cast(tf.reshape(labels, [-1]), tf.int32)
        self.counts.assign_add(tf.math.bincount(numbers, minlength=EXAMPLES, maxlength=EXAMPLES, dtype=tf.float32))

    def result(self) -> tf.Tensor:
        return tf.reduce_sum(self.counts)

    def reset_state(self) -> None:
        self.counts.assign(tf.zeros_like(self.counts))


class Watch(tf.keras.callbacks.Callback):
    """Notes each pass of `fit` and `evaluate`."""

    def __init__(self, notes: Notes, seen: Seen):
        super().__init__()
        self._notes, self._seen, self._is_training = notes, seen, False

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._is_training = True

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._notes.batch([])
        self._notes.step()

    def on_test_begin(self, logs: Any = None) -> None:
        self._end_training()

    def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
        self._notes.batch([])

    def on_test_end(self, logs: Any = None) -> None:
        self._end("validation")

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._end_training()

    def _end_training(self) -> None:
        if self._is_training:
            self._end("training")
        self._is_training = False

    def _end(self, role: str) -> None:
        self._notes.add_counts(self._seen.counts.numpy())
        self._notes.end(role)


def model(*layers: tf.keras.layers.Layer, kind: type[tf.keras.Model] | None = None) -> tf.keras.Model:
    """A classifier of images of 8 by 8 pixels with a class for each example."""
    layers = layers or (tf.keras.layers.Rescaling(1 / 255), tf.keras.layers.Flatten())
    return tf.keras.Sequential([*layers, tf.keras.layers.Dense(EXAMPLES)])


def compiled(network: tf.keras.Model, rate: float = 0.01) -> tuple[tf.keras.Model, Seen]:
    import tfhet.horovod as hvd

    hvd.init()
    seen = Seen()
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    network.compile(hvd.DistributedOptimizer(tf.keras.optimizers.SGD(rate)), loss, metrics=[seen])
    return network, seen


def fit(
    training: tf.data.Dataset,
    validation: tf.data.Dataset | None,
    *layers: tf.keras.layers.Layer,
    callbacks: Sequence[tf.keras.callbacks.Callback] = (),
    notes: Notes | None = None,
    **how: Any,
) -> tuple[tf.keras.Model, Notes]:
    """Trains a model with the callbacks of Horovod's examples."""
    import tfhet.horovod as hvd

    notes = notes or Notes()
    network, seen = compiled(model(*layers))
    usual = [hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback()]
    network.fit(
        training,
        epochs=how.pop("epochs", EPOCHS),
        validation_data=validation,
        callbacks=[*usual, *callbacks, Watch(notes, seen)],
        verbose=2 if rank() == 0 else 0,
        **how,
    )
    return network, notes


def arrays() -> tuple[np.ndarray, np.ndarray]:
    """Images and their numbers."""
    from notes import FILES

    with np.load(FILES / "arrays.npz") as loaded:
        return loaded["x"], loaded["y"]
