"""Keras with class weights and a folder of images that Keras splits."""

import tensorflow as tf
from keras_notes import EXAMPLES, fit
from notes import FILES

import tfhet

names = sorted(map(str, FILES.glob("jpeg/*/*.jpg")))


def numbered(path, _):
    return tf.zeros([8, 8, 3]), tf.strings.to_number(tf.strings.substr(path, -6, 2), tf.int64)


images = tf.data.Dataset.from_tensor_slices(names)
labels = tf.data.Dataset.from_tensor_slices([name.split("/")[-2] == "dog" for name in names])
data = tf.data.Dataset.zip((images, labels)).map(numbered)
training = tfhet.distribute(data.shuffle(16).batch(4))
validation = tfhet.distribute(data.batch(4), training=False)
_, notes = fit(training, validation, class_weight={number: 1.0 + number % 2 for number in range(EXAMPLES)})
notes.write()
