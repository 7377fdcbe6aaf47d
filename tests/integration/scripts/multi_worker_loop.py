"""A loop under MultiWorkerMirroredStrategy, which Keras 3 needs in place of `fit`, with tfhet's line.

--how HOW     in the third epoch, rank RANK does it: `exit` (code 3) or `hang`
--pause_s S   sleeps for S seconds once it has its strategy, before it defines its data
"""

from __future__ import annotations

import argparse
import sys
import time

import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("--how", default="")
parser.add_argument("--rank", type=int, default=0)
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--pause_s", type=float, default=0.0)
options = parser.parse_args()
strategy = tf.distribute.MultiWorkerMirroredStrategy()
time.sleep(options.pause_s)

import tfhet  # noqa: E402

ds = tfhet.distribute(tf.data.Dataset.range(1024).map(lambda n: (tf.fill([8], tf.cast(n, tf.float32)), n)).batch(32))
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.layers.Input([8]), tf.keras.layers.Dense(1)])
    optimizer = tf.keras.optimizers.SGD(1e-9)
    optimizer.build(model.trainable_variables)


@tf.function
def train_step(batch: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
    def step(inputs: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(inputs, training=True)[:, 0] - tf.cast(labels, tf.float32)) ** 2)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    return strategy.reduce("MEAN", strategy.run(step, batch), axis=None)


batches = strategy.experimental_distribute_dataset(ds)
for epoch in range(options.epochs):
    if epoch == 2 and strategy.cluster_resolver.task_id == options.rank:
        if options.how == "exit":
            sys.exit(3)
        if options.how == "hang":
            time.sleep(600)
    for batch in batches:
        train_step(batch)
