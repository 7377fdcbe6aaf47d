"""Trains on a declared pipeline with a stage of its own, on one rank."""

import os

import exposure  # noqa: F401  (registers random_exposure)
import tensorflow as tf

import tfhet
from tfhet.source.digits import digits

directory = os.environ.get("SM_CHANNEL_TRAINING") or digits() / "train"
source = tfhet.TFRecordSource.from_directory(directory)
pipeline = tfhet.Pipeline(source, "random_exposure(stops=0.3); rescale()", batch_size=32, seed=1, shuffle=1000)
print(pipeline.explain())

model = tf.keras.Sequential(
    [
        tf.keras.layers.Input([32, 32, 3]),
        tf.keras.layers.Conv2D(16, 3, activation="relu"),
        tf.keras.layers.MaxPooling2D(),
        tf.keras.layers.Flatten(),
        tf.keras.layers.Dense(10, activation="softmax"),
    ]
)
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(tfhet.distribute(pipeline), epochs=3, verbose=2)
tf.saved_model.save(model, os.path.join(os.environ.get("SM_MODEL_DIR", "model"), "1"))
