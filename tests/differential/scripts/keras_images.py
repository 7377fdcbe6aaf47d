"""Keras on a folder of images, decoded in map, with augmentation in the model: the image classification guide."""

import tensorflow as tf
from keras_notes import fit
from notes import FILES

import tfhet

names = sorted(map(str, FILES.glob("jpeg/*/*.jpg")))


def read(name, number):
    return tf.image.resize(tf.io.decode_jpeg(tf.io.read_file(name), 3), [8, 8]), number


data = tf.data.Dataset.from_tensor_slices((names, list(range(len(names))))).map(read, tf.data.AUTOTUNE)
training = tfhet.distribute(data.cache().shuffle(16).batch(4))
validation = tfhet.distribute(data.batch(5), training=False)
layers = [tf.keras.layers.RandomFlip(), tf.keras.layers.Rescaling(1 / 255), tf.keras.layers.Flatten()]
_, notes = fit(training, validation, *layers)
notes.write()
