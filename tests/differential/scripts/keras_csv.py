"""Keras on CSV files: make_csv_dataset, features by name, packed into a vector."""

import tensorflow as tf
from keras_notes import fit
from notes import EXAMPLES, FILES

import tfhet
import tfhet.horovod as hvd

hvd.init()


def packed(columns, number):
    return tf.stack([tf.cast(columns["x"], tf.float32), tf.cast(columns["label"], tf.float32)], -1), number


def read(shuffle):
    return tf.data.experimental.make_csv_dataset(
        str(FILES / "csv/*"), 4, label_name="number", num_epochs=1, shuffle=shuffle, shuffle_buffer_size=8
    ).map(packed)


training = tfhet.distribute(read(True), steps_per_epoch=EXAMPLES // 4 // hvd.size())
validation = tfhet.distribute(read(False), training=False)
_, notes = fit(training, validation, tf.keras.layers.Dense(4))
notes.write()
