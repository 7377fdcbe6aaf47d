"""Keras in MultiWorkerMirroredStrategy, whose ranks get parts of a global batch."""

import tensorflow as tf
from keras_notes import Seen, Watch, arrays, model
from notes import EPOCHS, Notes

import tfhet

strategy = tf.distribute.MultiWorkerMirroredStrategy()
data = tf.data.Dataset.from_tensor_slices(arrays())
training = tfhet.distribute(data.shuffle(16).batch(4))
validation = tfhet.distribute(data.batch(4), training=False)
with strategy.scope():
    network, seen = model(), Seen()
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    network.compile("sgd", loss, metrics=[seen])
notes = Notes()
network.fit(training, epochs=EPOCHS, validation_data=validation, callbacks=[Watch(notes, seen)], verbose=2)
notes.write()
