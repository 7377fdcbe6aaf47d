"""A training script. Its one line for tfhet is `distribute`; the data, a grey level for each class, stand for yours."""

import os

import tensorflow as tf

import tfhet


def file(number):  # stands for a file of yours: 160 noisy images of ten classes
    labels = tf.data.Dataset.range(160).map(lambda index: index % 10)
    return labels.map(lambda label: (tf.cast(label, tf.float32) / 5 - 1 + tf.random.normal([32, 32, 3]), label))


ds = tf.data.Dataset.range(16).interleave(file, num_parallel_calls=tf.data.AUTOTUNE).shuffle(1000).batch(32)
ds = tfhet.distribute(ds, steps_per_epoch=80)  # tfhet's line

layers = [tf.keras.layers.GlobalAveragePooling2D(), tf.keras.layers.Dense(10)]
model = tf.keras.Sequential([tf.keras.layers.Input([32, 32, 3]), *layers])
loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile(tf.keras.optimizers.Adam(0.1), loss, metrics=["accuracy"])
model.fit(ds, epochs=3, verbose=2)
model.save(os.path.join(os.environ.get("SM_MODEL_DIR", "."), "model.keras"))
