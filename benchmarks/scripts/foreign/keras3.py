"""A script for Keras 3 with one rank: `keras.Model`, an optimizer with a schedule, checkpoints by a callback."""

import os

import keras
import tensorflow as tf

import tfhet

BATCH, EXAMPLES = 64, 1437


def parse(record):
    features = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}
    example = tf.io.parse_single_example(record, features)
    return tf.reshape(tf.io.decode_raw(example["image"], tf.uint8), [32, 32, 3]), example["label"]


files = sorted(tf.io.gfile.glob(os.environ["SM_CHANNEL_TRAINING"] + "/*.tfrecord*"))
ds = tf.data.TFRecordDataset(files, num_parallel_reads=2).shuffle(500).map(parse, num_parallel_calls=2).batch(BATCH)
ds = tfhet.distribute(ds, steps_per_epoch=EXAMPLES // BATCH)  # the one line

inputs = keras.Input([32, 32, 3])
found = keras.layers.Rescaling(1 / 255)(inputs)
found = keras.layers.Conv2D(64, 3, activation="relu")(found)
found = keras.layers.GlobalAveragePooling2D()(keras.layers.Conv2D(64, 3, activation="relu")(found))
model = keras.Model(inputs, keras.layers.Dense(10)(found))
schedule = keras.optimizers.schedules.CosineDecay(0.01, 5 * EXAMPLES // BATCH)
model.compile(keras.optimizers.SGD(schedule), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
save = keras.callbacks.ModelCheckpoint(os.path.join(os.environ["SM_MODEL_DIR"], "newest.keras"))
model.fit(ds, epochs=5, callbacks=[save], verbose=2)
