"""A whole epoch in one tf.function, which iterates over the data set in the graph."""

import tensorflow as tf
from keras_notes import arrays
from notes import EPOCHS, Notes

import tfhet

data = tf.data.Dataset.from_tensor_slices(arrays())
training = tfhet.distribute(data.batch(4))
validation = tfhet.distribute(data.batch(4), training=False)
notes = Notes()


def note(labels):
    notes.batch(labels.numpy())
    notes.step()


@tf.function
def epoch_of(data):
    for _, labels in data:
        tf.py_function(note, [labels], [])


for _ in range(EPOCHS):
    epoch_of(training)
    notes.end("training")
    for _, labels in validation:
        notes.batch(labels.numpy())
    notes.end("validation")
notes.write()
