"""Keras with callbacks that decide by validation: early stopping, a plateau, the best checkpoint."""

import os

import tensorflow as tf
from keras_notes import arrays, fit

import tfhet
import tfhet.horovod as hvd

hvd.init()
data = tf.data.Dataset.from_tensor_slices(arrays())
training = tfhet.distribute(data.shuffle(16).batch(4))
validation = tfhet.distribute(data.batch(4), training=False)
path = os.path.join(os.environ["NOTES"], f"best-{hvd.rank()}.keras")
callbacks = [
    tf.keras.callbacks.ReduceLROnPlateau("val_loss", patience=1),
    tf.keras.callbacks.EarlyStopping("val_loss", patience=4),
    tf.keras.callbacks.ModelCheckpoint(path, "val_loss", save_best_only=True),
]
_, notes = fit(training, validation, callbacks=callbacks)
notes.write()
