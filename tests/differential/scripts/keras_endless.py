"""Keras on data that repeat, with steps_per_epoch and validation_steps."""

import tensorflow as tf
from keras_notes import arrays, fit
from notes import EXAMPLES

import tfhet
import tfhet.horovod as hvd

hvd.init()
data = tf.data.Dataset.from_tensor_slices(arrays())
training = tfhet.distribute(data.repeat().batch(4))
validation = tfhet.distribute(data.batch(4), training=False)
_, notes = fit(training, validation, steps_per_epoch=EXAMPLES // 4 // hvd.size())
notes.write()
