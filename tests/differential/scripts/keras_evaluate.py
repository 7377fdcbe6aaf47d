"""Keras with evaluate after each epoch of fit."""

import tensorflow as tf
from keras_notes import Watch, arrays, compiled, model
from notes import EPOCHS, Notes

import tfhet

data = tf.data.Dataset.from_tensor_slices(arrays())
training = tfhet.distribute(data.batch(4))
validation = tfhet.distribute(data.batch(4), training=False)
notes = Notes()
network, seen = compiled(model())
watch = Watch(notes, seen)
for epoch in range(EPOCHS):
    network.fit(training, initial_epoch=epoch, epochs=epoch + 1, callbacks=[watch], verbose=0)
    network.evaluate(validation, callbacks=[watch], verbose=0)
notes.write()
