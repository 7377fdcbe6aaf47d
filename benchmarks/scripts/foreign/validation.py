"""Keras' `fit` with validation, where the script puts `map` and `prefetch` after `distribute`."""

import os

import horovod.tensorflow.keras as hvd
import tensorflow as tf

import tfhet

hvd.init()
BATCH, EXAMPLES = 64, 1437


def read(channel):
    def parse(record):
        features = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}
        example = tf.io.parse_single_example(record, features)
        return tf.reshape(tf.io.decode_raw(example["image"], tf.uint8), [32, 32, 3]), example["label"]

    files = sorted(tf.io.gfile.glob(os.environ[f"SM_CHANNEL_{channel}"] + "/*.tfrecord*"))
    records = tf.data.Dataset.from_tensor_slices(files).interleave(tf.data.TFRecordDataset, num_parallel_calls=2)
    return records.map(parse, num_parallel_calls=2)


def augmented(images, labels):
    images = tf.image.random_brightness(tf.cast(images, tf.float32) / 255, 0.2)
    return tf.image.random_contrast(images, 0.8, 1.2), labels


train = tfhet.distribute(read("TRAINING").shuffle(500).batch(BATCH), steps_per_epoch=EXAMPLES // BATCH // hvd.size())
train = train.map(augmented, num_parallel_calls=2).prefetch(2)
validation = tfhet.distribute(read("VALIDATION").batch(BATCH), training=False)
validation = validation.map(lambda images, labels: (tf.cast(images, tf.float32) / 255, labels)).prefetch(1)

model = tf.keras.Sequential(
    [
        tf.keras.layers.Conv2D(64, 3, activation="relu"),
        tf.keras.layers.Conv2D(64, 3, activation="relu"),
        tf.keras.layers.MaxPooling2D(),
        tf.keras.layers.Flatten(),
        tf.keras.layers.Dense(10, activation="softmax"),
    ]
)
optimizer = hvd.DistributedOptimizer(tf.keras.optimizers.Adam(0.001))
model.compile(optimizer, "sparse_categorical_crossentropy", metrics=["accuracy"])
callbacks = [hvd.callbacks.BroadcastGlobalVariablesCallback(0)]
model.fit(train, epochs=5, validation_data=validation, callbacks=callbacks, verbose=2)
