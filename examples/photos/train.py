"""Trains on photos of many sizes and validates after each epoch, on one rank."""

import os

import tensorflow as tf

import tfhet
from tfhet.source.photos import photos

TRAIN = "decode(); random_resized_crop(64, 64); random_flip(); rescale()"
VALIDATE = "decode(); resized_center_crop(64, 64, 72); rescale()"


def channel(name, count, seed):
    """Directory of a channel of the job; without a job, variants of the photos of scikit-learn."""
    return os.environ.get(f"SM_CHANNEL_{name.upper()}") or photos(count=count, seed=seed, shards=4)


train = tfhet.TFRecordSource.from_directory(channel("training", 64, seed=0))
validation = tfhet.TFRecordSource.from_directory(channel("validation", 32, seed=1))
ds = tfhet.distribute(tfhet.Pipeline(train, TRAIN, batch_size=16, shuffle=64))
val = tfhet.distribute(tfhet.Pipeline(validation, VALIDATE, batch_size=16), training=False)

model = tf.keras.Sequential(
    [
        tf.keras.layers.Input([64, 64, 3]),
        tf.keras.layers.Conv2D(16, 3, strides=2, activation="relu"),
        tf.keras.layers.Conv2D(32, 3, strides=2, activation="relu"),
        tf.keras.layers.GlobalAveragePooling2D(),
        tf.keras.layers.Dense(2, activation="softmax"),
    ]
)
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(ds, validation_data=val, epochs=3, verbose=2)
tf.saved_model.save(model, os.path.join(os.environ.get("SM_MODEL_DIR", "model"), "1"))
