# train.py
import os

import tensorflow as tf

import tfhet
from tfhet.source.digits import digits

directory = os.environ.get("SM_CHANNEL_TRAINING") or str(digits() / "train")
batch_size, steps = 32, 44
cluster = tf.distribute.cluster_resolver.TFConfigClusterResolver()
if cluster.task_type == "worker":  # serves the chief, until the job is over
    tf.distribute.Server(cluster.cluster_spec(), job_name="worker", task_index=cluster.task_id).join()
strategy = tf.distribute.ParameterServerStrategy(cluster)


def parse(record):
    features = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}
    example = tf.io.parse_single_example(record, features)
    return tf.reshape(tf.io.decode_raw(example["image"], tf.uint8), [32, 32, 3]), example["label"]


def dataset_fn(context):
    """Runs on each worker."""
    files = tf.data.Dataset.from_tensor_slices(sorted(tf.io.gfile.glob(f"{directory}/*.tfrecord*")))
    ds = files.interleave(tf.data.TFRecordDataset, num_parallel_calls=tf.data.AUTOTUNE)
    ds = ds.shuffle(1000).map(parse, num_parallel_calls=tf.data.AUTOTUNE).batch(batch_size)
    return tfhet.distribute(ds)  # tfhet's line


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

model.fit(tf.keras.utils.experimental.DatasetCreator(dataset_fn), steps_per_epoch=steps, epochs=3, verbose=2)
tf.saved_model.save(model, os.path.join(os.environ.get("SM_MODEL_DIR", "model"), "1"))
