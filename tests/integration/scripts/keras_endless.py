"""A user's script: Keras on a data set without end, from which every rank takes as many steps as it likes.

--steps N   in each of two epochs
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import horovod.tensorflow.keras as hvd
import tensorflow as tf

import tfhet

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=60)
arguments, _ = parser.parse_known_args()
hvd.init()
ds = tf.data.Dataset.range(1000).shuffle(1000, seed=1).repeat()
ds = ds.map(lambda number: (tf.fill([4], tf.cast(number, tf.float32) / 1000), number % 2)).batch(16)
ds = tfhet.distribute(ds)
model = tf.keras.Sequential([tf.keras.layers.Input([4]), tf.keras.layers.Dense(2, activation="softmax")])
model.compile(hvd.DistributedOptimizer(tf.keras.optimizers.SGD(0.01)), "sparse_categorical_crossentropy")
steps: list[int] = []


def count(batch: int, logs: object) -> None:
    steps.append(batch)
    time.sleep(0.05)


model.fit(
    ds,
    epochs=2,
    steps_per_epoch=arguments.steps,
    callbacks=[
        hvd.callbacks.BroadcastGlobalVariablesCallback(0),
        tf.keras.callbacks.LambdaCallback(on_train_batch_end=count),
    ],
    verbose=0,
)
(Path(os.environ["SM_OUTPUT_DATA_DIR"]) / f"steps-{hvd.rank()}").write_text(str(len(steps)))
