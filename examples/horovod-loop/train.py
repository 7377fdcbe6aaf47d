"""A training loop with Horovod that reads tf.data, prepared on the data hosts if the job has some."""

import os

import tensorflow as tf

import tfhet
import tfhet.horovod as hvd
from tfhet.source.digits import digits

hvd.init()
directory = os.environ.get("SM_CHANNEL_TRAINING") or str(digits() / "train")
examples, batch_size = 1437, 32


def parse(record):
    features = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}
    example = tf.io.parse_single_example(record, features)
    return tf.reshape(tf.io.decode_raw(example["image"], tf.uint8), [32, 32, 3]), example["label"]


files = tf.data.Dataset.from_tensor_slices(sorted(tf.io.gfile.glob(f"{directory}/*.tfrecord*")))
ds = files.interleave(tf.data.TFRecordDataset, num_parallel_calls=tf.data.AUTOTUNE)
ds = ds.shuffle(1000).map(parse, num_parallel_calls=tf.data.AUTOTUNE).batch(batch_size, drop_remainder=True)
ds = tfhet.distribute(ds, steps_per_epoch=examples // batch_size // hvd.size())

model = tf.keras.Sequential(
    [
        tf.keras.layers.Input([32, 32, 3]),
        tf.keras.layers.Rescaling(1 / 255),
        tf.keras.layers.Conv2D(16, 3, activation="relu"),
        tf.keras.layers.MaxPooling2D(),
        tf.keras.layers.Flatten(),
        tf.keras.layers.Dense(10),
    ]
)
loss_of = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
optimizer = tf.keras.optimizers.Adam(0.001 * hvd.size())
hvd.broadcast_variables(model.variables, root_rank=0)


@tf.function
def train(images, labels):
    with tf.GradientTape() as tape:
        loss = loss_of(labels, model(images, training=True))
    gradients = hvd.DistributedGradientTape(tape).gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    return loss


for epoch in range(3):
    for images, labels in ds:
        with tfhet.step() as step:
            step.loss = train(images, labels)
    if hvd.rank() == 0:
        print(f"epoch {epoch}: loss {float(step.loss):.3f}")
if hvd.rank() == 0:
    model.export(os.path.join(os.environ.get("SM_MODEL_DIR", "model"), "1"))
