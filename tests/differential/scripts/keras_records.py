"""Keras on TFRecord files with steps_per_epoch: the TFRecord guide."""

import tensorflow as tf
from keras_notes import fit
from notes import EXAMPLES, FILES

import tfhet
import tfhet.horovod as hvd

hvd.init()
FEATURES = {"number": tf.io.FixedLenFeature([], tf.int64), "image": tf.io.FixedLenFeature([], tf.string)}


def parse(record):
    example = tf.io.parse_single_example(record, FEATURES)
    return tf.ensure_shape(tf.io.decode_jpeg(example["image"], 3), [8, 8, 3]), example["number"]


def read(files):
    data = tf.data.Dataset.from_tensor_slices(files).interleave(tf.data.TFRecordDataset, num_parallel_calls=2)
    return data.map(parse, num_parallel_calls=tf.data.AUTOTUNE)


files = sorted(map(str, FILES.glob("tfrecord/*")))
steps = EXAMPLES // 4 // hvd.size()
training = tfhet.distribute(read(files).shuffle(8).batch(4).prefetch(2), steps_per_epoch=steps)
validation = tfhet.distribute(read(files[:4]).batch(4), training=False)
_, notes = fit(training, validation)
notes.write()
