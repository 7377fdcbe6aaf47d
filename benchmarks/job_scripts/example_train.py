"""The training script of AWS's heterogeneous cluster example (TensorFlow), written again: Keras, Horovod, `model.fit`.

With `--dispatcher` it reads its data as the example does: every rank registers the dataset, each has a job of its own,
every worker reads all of the data, and Snappy compresses the batches. Without, it reads from `tfhet.distribute`: the
same script under tfhet's launcher. Source: `train_dnn.py` of that example (see `example_launcher.py`).
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from benchmarks.job_scripts import plain
from benchmarks.job_scripts.stamp import stamp
from tfhet.clock import SYSTEM
from tfhet.cluster import environment, host_paths
from tfhet.process import end_with_parent

if TYPE_CHECKING:
    import tensorflow as tf

SHAPE, CLASSES = (32, 32, 3), 10
SHUFFLE = 10_000
LEARNING_RATE, WARMUP_EPOCHS = 0.001, 3


def main(argv: Sequence[str]) -> None:
    """Trains."""
    given = _arguments(argv)
    end_with_parent(signal.SIGKILL)

    import tensorflow as tf

    import tfhet.horovod as hvd  # in place of horovod.tensorflow.keras, which reduces nothing under Keras 3

    hvd.init()
    data = _stamped(_served(_data(given), given.dispatcher).prefetch(tf.data.AUTOTUNE), hvd.rank())
    model = _model(given.model)
    rate = LEARNING_RATE * hvd.size()
    optimizer = hvd.DistributedOptimizer(tf.keras.optimizers.Adam(rate))
    loss = tf.keras.losses.SparseCategoricalCrossentropy()
    model.compile(optimizer, loss, metrics=["accuracy"])
    callbacks = [
        hvd.callbacks.BroadcastGlobalVariablesCallback(0),
        hvd.callbacks.MetricAverageCallback(),
        hvd.callbacks.LearningRateWarmupCallback(
            initial_lr=rate, warmup_epochs=WARMUP_EPOCHS, steps_per_epoch=given.steps_per_epoch
        ),
        _steps(hvd.rank()),
    ]
    model.fit(data, epochs=given.epochs, steps_per_epoch=given.steps_per_epoch, callbacks=callbacks, verbose=0)


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--dispatcher", default="")
    parser.add_argument("--chain", default="aws-cifar")
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--batch_size", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--steps_per_epoch", type=int, default=50)
    return parser.parse_known_args(argv)[0]


def _data(given: argparse.Namespace) -> tf.data.Dataset:
    from tfhet import stages

    channel = host_paths(environment()).channel("training")
    files = sorted(str(path) for path in channel.glob("*.tfrecord*"))
    return plain.dataset(files, SHAPE, stages.parse(given.chain), given.batch_size, repeat=-1, shuffle=SHUFFLE)


def _served(data: tf.data.Dataset, dispatcher: str) -> tf.data.Dataset:
    if not dispatcher:
        from tfhet import distribute

        return distribute(data)

    from tensorflow.data.experimental import service

    return data.apply(service.distribute(processing_mode="parallel_epochs", service=f"grpc://{dispatcher}"))


def _model(name: str) -> tf.keras.Model:
    from tfhet.trainer.build import model

    return model(name, SHAPE, CLASSES)


def _stamped(data: tf.data.Dataset, rank: int) -> tf.data.Dataset:
    """The same dataset; rank 0 prints a stamp at its first batch."""
    import tensorflow as tf

    def print_stamp() -> Any:
        stamp("first_batch")
        return tf.constant(True)

    def passed(number: tf.Tensor, batch: Any) -> Any:
        first = tf.equal(number, 0)
        with tf.control_dependencies(
            [tf.cond(first, lambda: tf.py_function(print_stamp, [], tf.bool), lambda: tf.constant(True))]
        ):
            return tf.nest.map_structure(tf.identity, batch)

    return data.enumerate().map(passed) if rank == 0 else data


def _steps(rank: int) -> Any:
    """A callback that prints a stamp for every step of rank 0, with the milliseconds since the last one."""
    import tensorflow as tf

    class Steps(tf.keras.callbacks.Callback):
        def __init__(self) -> None:
            super().__init__()
            self._last_s = SYSTEM.monotonic()
            self._step = 0

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            now_s = SYSTEM.monotonic()
            self._step += 1
            if rank == 0:
                stamp("step", step=self._step, step_ms=f"{1e3 * (now_s - self._last_s):.3f}")
            self._last_s = now_s

    return Steps()


if __name__ == "__main__":
    main(sys.argv[1:])
