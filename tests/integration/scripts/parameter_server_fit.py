"""A user's script for ParameterServerStrategy: a chief that counts what each worker reads, and then trains with Keras.

--how HOW   `exit` or `hang`: after that, the chief (or with --rank N another rank) exits 3, or hangs
"""

from __future__ import annotations

import argparse
import json
import os
import threading
import time
from pathlib import Path

import tensorflow as tf

import tfhet
from tfhet.cluster import environment
from tfhet.strategies import JobContext

parser = argparse.ArgumentParser()
parser.add_argument("--how", default="")
parser.add_argument("--rank", type=int, default=0)
parser.add_argument("--epochs", type=int, default=2)
options = parser.parse_args()
job = JobContext.from_env(environment())
is_this = job.rank == options.rank


def fail() -> None:
    if options.how == "exit":
        os._exit(3)
    time.sleep(600)


cluster = tf.distribute.cluster_resolver.TFConfigClusterResolver()
if cluster.task_type == "worker":
    server = tf.distribute.Server(cluster.cluster_spec(), job_name="worker", task_index=cluster.task_id)
    if options.how == "exit" and is_this:
        threading.Timer(15.0, fail).start()
    server.join()
strategy = tf.distribute.ParameterServerStrategy(cluster)
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)


@tf.function
def counted() -> tf.data.Dataset:
    share = tfhet.distribute(tf.data.Dataset.range(60).batch(4), training=False)
    return strategy.distribute_datasets_from_function(lambda context: share)


@tf.function
def read(iterator: tf.data.Iterator) -> tuple[tf.Tensor, tf.Tensor]:
    found = tf.zeros([0], tf.int64)
    for _ in tf.range(5):
        tf.autograph.experimental.set_loop_options(shape_invariants=[(found, tf.TensorShape([None]))])
        found = tf.concat([found, next(iterator)], 0)
    return tf.distribute.coordinator.experimental_get_current_worker_index(), found


iterator = iter(coordinator.create_per_worker_dataset(counted))
shares: dict[int, list[int]] = {}
while len(shares) < job.size - 1:  # a worker that is quicker may come twice
    worker, found = coordinator.schedule(read, args=(iterator,)).fetch()
    shares[int(worker)] = found.tolist()
    iterator = iter(coordinator.create_per_worker_dataset(counted))
    time.sleep(0.1)

if options.how and is_this:
    fail()
directory = os.environ["SM_CHANNEL_TRAINING"]


def parse(record: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    features = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}
    example = tf.io.parse_single_example(record, features)
    return tf.reshape(tf.io.decode_raw(example["image"], tf.uint8), [32, 32, 3]), example["label"]


def dataset_fn(context: tf.distribute.InputContext) -> tf.data.Dataset:
    files = tf.data.Dataset.from_tensor_slices(sorted(tf.io.gfile.glob(f"{directory}/*.tfrecord*")))
    return tfhet.distribute(files.interleave(tf.data.TFRecordDataset).map(parse).batch(32))


with strategy.scope():
    layers = tf.keras.layers
    model = tf.keras.Sequential(
        [layers.Input([32, 32, 3]), layers.Rescaling(1 / 255), layers.Flatten(), layers.Dense(10, "softmax")]
    )
    model.compile(tf.keras.optimizers.Adam(0.003), "sparse_categorical_crossentropy")
data = tf.keras.utils.experimental.DatasetCreator(dataset_fn)
history = model.fit(data, steps_per_epoch=30, epochs=options.epochs, verbose=2)
assert job.output_dir
result = {"shares": shares, "loss": history.history["loss"]}
(Path(job.output_dir) / "chief.json").write_text(json.dumps(result))
