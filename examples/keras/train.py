# train.py
import os

import tensorflow as tf

import tfhet
import tfhet.horovod as hvd
from tfhet.source.digits import digits

hvd.init()
directory = os.environ.get("SM_CHANNEL_TRAINING") or str(digits() / "train")
examples, batch_size = 1437, 32


def parse(record):
    features = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}
    example = tf.io.parse_single_example(record, features)
    return tf.reshape(tf.io.decode_raw(example["image"], tf.uint8), [32, 32, 3]), example["label"]


files = tf.data.Dataset.from_tensor_slices(sorted(tf.io.gfile.glob(f"{directory}/*.tfrecord*")))
ds = files.interleave(tf.data.TFRecordDataset, num_parallel_calls=tf.data.AUTOTUNE)
ds = ds.shuffle(1000).map(parse, num_parallel_calls=tf.data.AUTOTUNE).batch(batch_size)
ds = tfhet.distribute(ds, steps_per_epoch=examples // batch_size // hvd.size())  # tfhet's line

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
optimizer = hvd.DistributedOptimizer(tf.keras.optimizers.Adam(0.001 * hvd.size()))
model.compile(optimizer, "sparse_categorical_crossentropy", metrics=["accuracy"])
callbacks = [hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback()]
model.fit(ds, epochs=3, callbacks=callbacks, verbose=2 if hvd.rank() == 0 else 0)
if hvd.rank() == 0:
    model.export(os.path.join(os.environ.get("SM_MODEL_DIR", "model"), "1"))
