"""A loop that marks its steps and their loss with tfhet.step."""

import tensorflow as tf
from keras_notes import arrays
from notes import EPOCHS, Notes

import tfhet

data = tf.data.Dataset.from_tensor_slices(arrays())
training = tfhet.distribute(data.batch(4))
validation = tfhet.distribute(data.batch(4), training=False)
notes = Notes()
for _ in range(EPOCHS):
    for _, labels in training:
        with tfhet.step() as step:
            notes.batch(labels.numpy())
            notes.step()
            step.loss = 1.0
    notes.end("training")
    for _, labels in validation:
        notes.batch(labels.numpy())
    notes.end("validation")
notes.write()
