"""Keras' `fit` on a plain data set of digits, for `benchmarks.plan_runs`; a small model, and beside it an accelerator
that is emulated.

As on an accelerator whose loss is shown for each batch, the next batch is asked for when it has done a step.
"""

import argparse
import os
import time

import horovod.tensorflow.keras as hvd
import tensorflow as tf

import tfhet

parser = argparse.ArgumentParser(allow_abbrev=False)
parser.add_argument("--batch", type=int, default=1024)
parser.add_argument("--steps", type=int, required=True)
parser.add_argument("--accelerator_step_ms", type=float, required=True)
given, _ = parser.parse_known_args()


class Accelerator(tf.keras.callbacks.Callback):
    """Takes its time for each batch."""

    def on_train_batch_end(self, batch: int, logs: object = None) -> None:
        time.sleep(given.accelerator_step_ms / 1e3)


def parse(record: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    features = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}
    example = tf.io.parse_single_example(record, features)
    return tf.reshape(tf.io.decode_raw(example["image"], tf.uint8), [32, 32, 3]), example["label"]


def augment(image: tf.Tensor, label: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    image = tf.image.random_brightness(tf.cast(image, tf.float32) / 255.0, 0.2)
    image = tf.image.random_crop(tf.image.resize_with_crop_or_pad(image, 36, 36), [32, 32, 3])
    return tf.cast(255.0 * tf.clip_by_value(image, 0.0, 1.0), tf.uint8), label


hvd.init()
files = tf.data.Dataset.list_files(os.environ["SM_CHANNEL_TRAINING"] + "/*.tfrecord*", shuffle=False)
records = files.interleave(tf.data.TFRecordDataset, num_parallel_calls=tf.data.AUTOTUNE).repeat()
digits = records.map(parse, num_parallel_calls=tf.data.AUTOTUNE).map(augment, num_parallel_calls=tf.data.AUTOTUNE)
batches = tfhet.distribute(digits.batch(given.batch).prefetch(2))

layers = [tf.keras.layers.Rescaling(1 / 255), tf.keras.layers.Flatten(), tf.keras.layers.Dense(10)]
model = tf.keras.Sequential(layers)
loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile(hvd.DistributedOptimizer(tf.keras.optimizers.SGD(0.01)), loss)
model.fit(batches, epochs=1, steps_per_epoch=given.steps, callbacks=[Accelerator()], verbose=0)
