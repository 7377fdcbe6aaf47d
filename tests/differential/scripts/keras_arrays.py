"""Keras on arrays: shuffle, batch, prefetch."""

import tensorflow as tf
from keras_notes import arrays, fit

import tfhet

data = tf.data.Dataset.from_tensor_slices(arrays())
training = tfhet.distribute(data.shuffle(64).batch(4).prefetch(tf.data.AUTOTUNE))
validation = tfhet.distribute(data.batch(4), training=False)
_, notes = fit(training, validation)
notes.write()
