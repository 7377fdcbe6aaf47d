"""A loop of one's own: epochs over TFRecord files, `next` by hand, and a validation after each epoch."""

import os
import sys

import horovod.tensorflow as hvd
import tensorflow as tf

import tfhet

EPOCHS, BATCH, EXAMPLES = 5, 64, 1437
hvd.init()
steps = EXAMPLES // BATCH // hvd.size()


def read(channel):
    def parse(record):
        features = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}
        example = tf.io.parse_single_example(record, features)
        return tf.reshape(tf.io.decode_raw(example["image"], tf.uint8), [32, 32, 3]), example["label"]

    files = sorted(tf.io.gfile.glob(os.environ[f"SM_CHANNEL_{channel}"] + "/*.tfrecord*"))
    records = tf.data.Dataset.from_tensor_slices(files).interleave(tf.data.TFRecordDataset, 2, num_parallel_calls=2)
    return records.map(parse, num_parallel_calls=2)


train = tfhet.distribute(read("TRAINING").shuffle(500, seed=3).batch(BATCH), steps_per_epoch=steps)
validation = read("VALIDATION").batch(BATCH)

layers = [tf.keras.layers.Conv2D(64, 3, activation="relu") for _ in range(2)] + [tf.keras.layers.Flatten()]
model = tf.keras.Sequential([tf.keras.layers.Rescaling(1 / 255), *layers, tf.keras.layers.Dense(10)])
model.build([None, 32, 32, 3])
optimizer = tf.keras.optimizers.SGD(0.05)
crossentropy = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
hvd.broadcast_variables(model.variables, root_rank=0)


@tf.function
def update(images, labels):
    with tf.GradientTape() as tape:
        loss = crossentropy(labels, model(images, training=True))
    gradients = [hvd.allreduce(each) for each in tape.gradient(loss, model.trainable_variables)]
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    return loss


for epoch in range(EPOCHS):
    batches, total = iter(train), 0.0
    for _ in range(steps):
        total += float(update(*next(batches)))
    right = [tf.equal(tf.argmax(model(images), 1), labels) for images, labels in validation]
    accuracy = float(tf.reduce_mean(tf.cast(tf.concat(right, 0), tf.float32)))
    print(f"epoch {epoch}: loss {total / steps:.3f}, accuracy {accuracy:.3f}", file=sys.stderr)
