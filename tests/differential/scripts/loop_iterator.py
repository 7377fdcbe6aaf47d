"""A loop over one iterator of repeated data, for a number of steps."""

import tensorflow as tf
from keras_notes import arrays
from notes import EPOCHS, EXAMPLES, Notes

import tfhet

job = tfhet.JobContext.from_env(__import__("os").environ)
data = tf.data.Dataset.from_tensor_slices(arrays())
training = tfhet.distribute(data.shuffle(8).repeat().batch(4))
validation = tfhet.distribute(data.batch(4), training=False)
notes, iterator = Notes(), iter(training)
for _ in range(EPOCHS):
    for _ in range(EXAMPLES // 4 // job.size):
        notes.batch(next(iterator)[1].numpy())
        notes.step()
    notes.end("training")
    for _, labels in validation.as_numpy_iterator():
        notes.batch(labels)
    notes.end("validation")
notes.write()
