"""In the manner of Horovod's TensorFlow 2 MNIST example: arrays, a compiled step, a tape that averages.

Its data are replaced by scikit-learn's digits. Written afresh, from horovod/horovod v0.28.1,
`examples/tensorflow2/tensorflow2_mnist.py`.
"""

import horovod.tensorflow as hvd
import tensorflow as tf
from sklearn.datasets import load_digits

import tfhet

hvd.init()
images, labels = load_digits(return_X_y=True)
images = images.reshape(-1, 8, 8, 1).repeat(3, axis=1).repeat(3, axis=2) / 16.0

dataset = tf.data.Dataset.from_tensor_slices((tf.cast(images, tf.float32), tf.cast(labels, tf.int64)))
dataset = dataset.repeat().shuffle(1000, seed=1).batch(128)
dataset = tfhet.distribute(dataset)  # the one line

model = tf.keras.Sequential(
    [
        tf.keras.layers.Conv2D(32, [3, 3], activation="relu"),
        tf.keras.layers.Conv2D(64, [3, 3], activation="relu"),
        tf.keras.layers.MaxPooling2D(pool_size=(2, 2)),
        tf.keras.layers.Dropout(0.25),
        tf.keras.layers.Flatten(),
        tf.keras.layers.Dense(64, activation="relu"),
        tf.keras.layers.Dense(10, activation="softmax"),
    ]
)
loss_of = tf.losses.SparseCategoricalCrossentropy()
optimizer = tf.optimizers.Adam(0.001 * hvd.size())


@tf.function
def training_step(images, labels, is_first):
    with tf.GradientTape() as tape:
        loss = loss_of(labels, model(images, training=True))
    tape = hvd.DistributedGradientTape(tape)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    if is_first:
        hvd.broadcast_variables(model.variables, root_rank=0)
        hvd.broadcast_variables(optimizer.variables, root_rank=0)
    return loss


for batch, (images, labels) in enumerate(dataset.take(120 // hvd.size())):
    loss = training_step(images, labels, batch == 0)
    if batch % 10 == 0 and hvd.local_rank() == 0:
        print(f"Step #{batch}\tLoss: {loss:.6f}")
