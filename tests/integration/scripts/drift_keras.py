"""Keras in `fit`, or with `--loop` in a loop; `--how alone`: no rank reduces its gradients."""

from __future__ import annotations

import argparse

import horovod.tensorflow as hvd
import tensorflow as tf

import tfhet

parser = argparse.ArgumentParser()
parser.add_argument("--how", choices=("reduced", "alone", "early"), required=True)
parser.add_argument("--loop", action="store_true")
parser.add_argument("--epochs", type=int, default=4)
arguments = parser.parse_args()
hvd.init()
tf.keras.utils.set_random_seed(hvd.rank())
model = tf.keras.Sequential([tf.keras.layers.Input([8]), tf.keras.layers.Dense(16), tf.keras.layers.Dense(1)])
optimizer = tf.keras.optimizers.SGD(0.01)
features = tf.random.normal([240, 8])
data = tf.data.Dataset.from_tensor_slices((features, tf.reduce_sum(features, 1, keepdims=True)))
data = tfhet.distribute(data.batch(4))


def variables(of):
    return [each if isinstance(each, tf.Variable) else each.value for each in of]


def step(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(x, training=True) - y))
    own = model.trainable_variables
    gradients = tape.gradient(loss, variables(own))
    if arguments.how == "reduced":
        gradients = [hvd.allreduce(each) for each in gradients]
    optimizer.apply_gradients(zip(gradients, own, strict=True))
    return {"loss": loss}


class Reducing(tf.keras.Model):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def call(self, x, training=False):
        return self.inner(x, training=training)

    def train_step(self, batch):
        return step(*batch)


class Broadcast(tf.keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if batch == 0 and arguments.how == "reduced":
            hvd.broadcast_variables(variables(model.variables), 0)


if arguments.loop:
    if arguments.how == "reduced":
        hvd.broadcast_variables(variables(model.variables), 0)
    compiled = tf.function(step)
    for _ in range(arguments.epochs):
        for number, batch in enumerate(data):
            if arguments.how == "early" and hvd.rank() and number == 5:
                break
            compiled(*batch)
elif arguments.how == "reduced":
    whole = Reducing(model)
    whole.compile(optimizer)
    whole.fit(data, epochs=arguments.epochs, callbacks=[Broadcast()], verbose=0)
else:
    model.compile(optimizer, "mse")
    model.fit(data, epochs=arguments.epochs, verbose=0)
print(f"rank={hvd.rank()} trained", flush=True)
