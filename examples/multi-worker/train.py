# train.py
import os
import tempfile

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()  # before anything else of TensorFlow's

import tfhet  # noqa: E402
from tfhet.source.digits import digits  # noqa: E402

directory = os.environ.get("SM_CHANNEL_TRAINING") or str(digits() / "train")
batch_size = 32  # of all workers together: TensorFlow gives each its part


def parse(record):
    features = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}
    example = tf.io.parse_single_example(record, features)
    return tf.reshape(tf.io.decode_raw(example["image"], tf.uint8), [32, 32, 3]), example["label"]


files = tf.data.Dataset.from_tensor_slices(sorted(tf.io.gfile.glob(f"{directory}/*.tfrecord*")))
ds = files.interleave(tf.data.TFRecordDataset, num_parallel_calls=tf.data.AUTOTUNE)
ds = ds.shuffle(1000).map(parse, num_parallel_calls=tf.data.AUTOTUNE).batch(batch_size, drop_remainder=True)
ds = tfhet.distribute(ds, steps_per_epoch=1437 // batch_size // strategy.num_replicas_in_sync)  # tfhet's line

with strategy.scope():
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
    optimizer = tf.keras.optimizers.Adam()
    optimizer.build(model.trainable_variables)


# A loop of its own instead of model.fit, which does not work with several workers in Keras 3.
@tf.function
def train_step(batch):
    def step(images, labels):
        with tf.GradientTape() as tape:
            logits = model(images, training=True)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
            loss = tf.reduce_sum(losses) / batch_size
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))  # summed over the workers
        return loss

    return strategy.reduce("SUM", strategy.run(step, batch), axis=None)


is_chief = strategy.cluster_resolver.task_id in (None, 0)
batches = strategy.experimental_distribute_dataset(ds)
for epoch in range(3):
    losses = [train_step(batch) for batch in batches]
    if is_chief:
        print(f"epoch {epoch}: loss {sum(map(float, losses)) / len(losses):.4f}", flush=True)
with tempfile.TemporaryDirectory() as scratch:  # all workers save, as TensorFlow asks, and the chief's copy is kept
    folder = os.path.join(os.environ.get("SM_MODEL_DIR", "model") if is_chief else scratch, "1")
    tf.saved_model.save(model, folder)
