# train.py
import os
import tempfile

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()  # before anything else of TensorFlow's

import tfhet  # noqa: E402
from tfhet.source.digits import digits  # noqa: E402

directory = os.environ.get("SM_CHANNEL_TRAINING") or str(digits() / "train")
batch_size = 32  # of all workers together: TensorFlow gives each its part


def parse(record):
    features = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}
    example = tf.io.parse_single_example(record, features)
    return tf.reshape(tf.io.decode_raw(example["image"], tf.uint8), [32, 32, 3]), example["label"]


files = tf.data.Dataset.from_tensor_slices(sorted(tf.io.gfile.glob(f"{directory}/*.tfrecord*")))
ds = files.interleave(tf.data.TFRecordDataset, num_parallel_calls=tf.data.AUTOTUNE)
ds = ds.shuffle(1000).map(parse, num_parallel_calls=tf.data.AUTOTUNE).batch(batch_size, drop_remainder=True)
ds = tfhet.distribute(ds, steps_per_epoch=1437 // batch_size // strategy.num_replicas_in_sync)  # tfhet's line

with strategy.scope():
    model = tf.keras.Sequential(
        [
            tf.keras.layers.Input([32, 32, 3]),
            tf.keras.layers.Rescaling(1 / 255),
            tf.keras.layers.Conv2D(16, 3, activation="relu"),
            tf.keras.layers.MaxPooling2D(),
            tf.keras.layers.Flatten(),
            tf.keras.layers.Dense(10, activation="softmax"),
        ]
    )
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])

is_chief = strategy.cluster_resolver.task_id in (None, 0)
model.fit(ds, epochs=3, verbose=2 if is_chief else 0)
with tempfile.TemporaryDirectory() as scratch:  # all workers save, as TensorFlow asks, and that of the chief is kept
    model.save(os.path.join(os.environ.get("SM_MODEL_DIR", "model") if is_chief else scratch, "1"))
