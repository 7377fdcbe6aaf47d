"""Keras after a look at the data: takes some batches to plot them, and adapts a Normalization layer."""

import tensorflow as tf
from keras_notes import arrays, fit

import tfhet

data = tf.data.Dataset.from_tensor_slices(arrays())
training = tfhet.distribute(data.batch(4))
validation = tfhet.distribute(data.batch(4), training=False)
for images, labels in validation.take(2):
    print(images.shape, labels.numpy())
scale = tf.keras.layers.Normalization(axis=None)
scale.adapt(validation.map(lambda image, _: tf.cast(image, tf.float32)))
_, notes = fit(training, validation, scale, tf.keras.layers.Reshape([192]))
notes.write()
