"""Keras with tfhet's callback, which marks the steps exactly."""

import tensorflow as tf
from keras_notes import arrays, fit

import tfhet

data = tf.data.Dataset.from_tensor_slices(arrays())
training = tfhet.distribute(data.batch(4))
validation = tfhet.distribute(data.batch(4), training=False)
_, notes = fit(training, validation, callbacks=[tfhet.StepCallback()])
notes.write()
