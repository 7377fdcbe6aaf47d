"""A user's Keras script for MultiWorkerMirroredStrategy, or MirroredStrategy with `mirrored`, and tfhet's lines.

--how HOW     in the third epoch, rank RANK does it: `exit` (code 3) or `hang`, in a callback of its own
--pause_s S   sleeps for S seconds once it has its strategy, before it defines its data
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import time
from pathlib import Path

import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("--mirrored", action="store_true")
parser.add_argument("--how", default="")
parser.add_argument("--rank", type=int, default=0)
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--pause_s", type=float, default=0.0)
options = parser.parse_args()
if options.mirrored:
    cpus = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(cpus[0], [tf.config.LogicalDeviceConfiguration()] * 2)
    strategy: tf.distribute.Strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
else:
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
time.sleep(options.pause_s)

import tfhet  # noqa: E402
from tfhet.cluster import environment  # noqa: E402
from tfhet.source import TFRecordSource  # noqa: E402
from tfhet.strategies import JobContext  # noqa: E402

job = JobContext.from_env(environment())


def numbers(data: tf.data.Dataset) -> list[int]:
    """The elements of a data set of numbers that this process gets of what the strategy makes of it."""
    found: list[int] = []
    for each in strategy.experimental_distribute_dataset(data):
        for local in strategy.experimental_local_results(each):
            found += local.numpy().tolist()
    return found


def end(epoch: int, logs: object = None) -> None:
    if epoch == 2 and job.rank == options.rank and options.how == "exit":
        sys.exit(3)
    if epoch == 2 and job.rank == options.rank and options.how == "hang":
        time.sleep(600)


training = TFRecordSource.from_directory(os.environ["SM_CHANNEL_TRAINING"])
ds = tfhet.distribute(tfhet.Pipeline(training, "rescale()", batch_size=32))
validation = tf.data.TFRecordDataset(sorted(tf.io.gfile.glob(f"{os.environ['SM_CHANNEL_VALIDATION']}/*.tfrecord*")))


def parse(record: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    features = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}
    example = tf.io.parse_single_example(record, features)
    image = tf.reshape(tf.io.decode_raw(example["image"], tf.uint8), [32, 32, 3])
    return tf.cast(image, tf.float32) / 255, example["label"]


held_out = tfhet.distribute(validation.map(parse).batch(32), training=False)
tf.random.set_seed(1 + job.rank)  # the strategy has to make the first weights equal
with strategy.scope():
    layers = tf.keras.layers
    model = tf.keras.Sequential(
        [
            layers.Input([32, 32, 3]),
            layers.Conv2D(8, 3, strides=2, activation="relu"),
            layers.Flatten(),
            layers.Dense(10, activation="softmax"),
        ]
    )
    model.compile(tf.keras.optimizers.Adam(0.003), "sparse_categorical_crossentropy", metrics=["accuracy"])
history = model.fit(
    ds,
    validation_data=held_out,
    epochs=options.epochs,
    callbacks=[tf.keras.callbacks.LambdaCallback(on_epoch_begin=end)],
    verbose=2 if job.rank == 0 else 0,
)
apart = tf.data.Options()
apart.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
result = {
    "whole": model.evaluate(validation.map(parse).batch(32).with_options(apart), return_dict=True, verbose=0),
    "val": {name: history.history[f"val_{name}"][-1] for name in ("loss", "accuracy")},
    "digest": hashlib.sha256(b"".join(weight.tobytes() for weight in model.get_weights())).hexdigest(),
    "replicas": strategy.num_replicas_in_sync,
    "loss": history.history["loss"],
    "val_accuracy": history.history["val_accuracy"],
    "numbers": numbers(tfhet.distribute(tf.data.Dataset.range(64).batch(8))),
    "held_out": numbers(tfhet.distribute(tf.data.Dataset.range(50).batch(8), training=False)),
}
assert job.output_dir
(Path(job.output_dir) / f"fit-{job.rank}.json").write_text(json.dumps(result))
