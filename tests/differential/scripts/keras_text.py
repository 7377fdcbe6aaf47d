"""Keras on lines of text: TextVectorization adapted first, and applied after distribute."""

import tensorflow as tf
from keras_notes import fit
from notes import EXAMPLES

import tfhet

words = [f"the line with number {i}" for i in range(EXAMPLES)]
data = tf.data.Dataset.from_tensor_slices((words, list(range(EXAMPLES))))
layer = tf.keras.layers.TextVectorization(output_sequence_length=5, max_tokens=100)
training = tfhet.distribute(data.shuffle(16).batch(4))
validation = tfhet.distribute(data.batch(4), training=False)
layer.adapt(data.batch(16).map(lambda text, _: text))
layers = [tf.keras.layers.Embedding(100, 4), tf.keras.layers.GlobalAveragePooling1D()]
_, notes = fit(
    training.map(lambda text, number: (layer(text), number)).prefetch(2),
    validation.map(lambda text, number: (layer(text), number)),
    *layers,
)
notes.write()
