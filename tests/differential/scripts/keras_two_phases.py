"""Keras in two phases, first with a part of the layers frozen: the transfer learning guide."""

import tensorflow as tf
from keras_notes import Watch, arrays, compiled, model
from notes import Notes

import tfhet

data = tf.data.Dataset.from_tensor_slices(arrays())
training = tfhet.distribute(data.shuffle(16).batch(4))
validation = tfhet.distribute(data.batch(4), training=False)
notes, base = Notes(), tf.keras.layers.Dense(8)
network = model(tf.keras.layers.Rescaling(1 / 255), tf.keras.layers.Flatten(), base)
for first, last, is_frozen in ((0, 2, True), (2, 4, False)):
    base.trainable = not is_frozen
    network, seen = compiled(network)
    network.fit(
        training,
        initial_epoch=first,
        epochs=last,
        validation_data=validation,
        callbacks=[Watch(notes, seen)],
        verbose=2,
    )
notes.write()
