# train.py
import os

import tensorflow as tf

import tfhet
from tfhet.source.digits import digits

strategy = tf.distribute.MirroredStrategy()  # all GPUs of this host, or its CPU
directory = os.environ.get("SM_CHANNEL_TRAINING") or str(digits() / "train")
batch_size = 32  # of all devices together: TensorFlow gives each its part


def parse(record):
    features = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}
    example = tf.io.parse_single_example(record, features)
    return tf.reshape(tf.io.decode_raw(example["image"], tf.uint8), [32, 32, 3]), example["label"]


files = tf.data.Dataset.from_tensor_slices(sorted(tf.io.gfile.glob(f"{directory}/*.tfrecord*")))
ds = files.interleave(tf.data.TFRecordDataset, num_parallel_calls=tf.data.AUTOTUNE)
ds = ds.shuffle(1000).map(parse, num_parallel_calls=tf.data.AUTOTUNE).batch(batch_size, drop_remainder=True)
ds = tfhet.distribute(ds, steps_per_epoch=1437 // batch_size)  # tfhet's line

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

model.fit(ds, epochs=3, verbose=2)
tf.saved_model.save(model, os.path.join(os.environ.get("SM_MODEL_DIR", "model"), "1"))
