"""A user's script: Keras, the usual Horovod lines, and one line of tfhet. Runs alone, homogeneous and heterogeneous."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import tensorflow as tf

import tfhet
import tfhet.horovod as hvd

hvd.init()
BATCH_SIZE, EXAMPLES = 32, 1437


def parse(record):
    features = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}
    example = tf.io.parse_single_example(record, features)
    return tf.reshape(tf.io.decode_raw(example["image"], tf.uint8), [32, 32, 3]), example["label"]


def read(channel):
    directory = os.environ[f"SM_CHANNEL_{channel}"]
    files = tf.data.Dataset.from_tensor_slices(sorted(tf.io.gfile.glob(f"{directory}/*.tfrecord*")))
    ds = files.interleave(tf.data.TFRecordDataset, num_parallel_calls=2).shuffle(1000)
    return ds.map(parse, num_parallel_calls=2)


ds = read("TRAINING").batch(BATCH_SIZE)
ds = tfhet.distribute(ds, steps_per_epoch=EXAMPLES // BATCH_SIZE // hvd.size())
whole = read("VALIDATION").filter(lambda image, label: label < 7).batch(BATCH_SIZE)
validation = tfhet.distribute(whole, training=False)

tf.random.set_seed(hvd.rank())  # the ranks begin with different weights: the broadcast has something to do
model = tf.keras.Sequential(
    [
        tf.keras.layers.Input([32, 32, 3]),
        tf.keras.layers.Rescaling(1 / 255),
        tf.keras.layers.Conv2D(8, 3, strides=2, activation="relu"),
        tf.keras.layers.Flatten(),
        tf.keras.layers.Dense(10, activation="softmax"),
    ]
)
optimizer = hvd.DistributedOptimizer(tf.keras.optimizers.Adam(0.002))
model.compile(optimizer, "sparse_categorical_crossentropy", metrics=["accuracy"])
steps: list[int] = []
count = tf.keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: steps.append(batch))
history = model.fit(
    ds,
    epochs=2,
    validation_data=validation,
    callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0), tfhet.MetricAverageCallback(), count],
    verbose=2 if hvd.rank() == 0 else 0,
)
digest = hashlib.sha256(b"".join(weight.tobytes() for weight in model.get_weights())).hexdigest()
result = {
    "digest": digest,
    "size": hvd.size(),
    "loss": [float(loss) for loss in history.history["loss"]],
    "steps": len(steps),
    "validation_batches": sum(1 for _ in validation),
    "validated": {name: history.history[f"val_{name}"] for name in ("loss", "accuracy")},
    "whole": model.evaluate(whole, return_dict=True, verbose=0),
}
(Path(os.environ["SM_OUTPUT_DATA_DIR"]) / f"fit-{hvd.rank()}.json").write_text(json.dumps(result))
