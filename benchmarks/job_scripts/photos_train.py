"""A loop of one's own over photos in a declared pipeline, for `benchmarks.plan_runs`; its accelerator is emulated.

As in a loop that looks at each step's loss, the next batch is asked for when the accelerator has done a step.
"""

import argparse
import os
import time

import horovod.tensorflow as hvd
import tensorflow as tf

import tfhet

parser = argparse.ArgumentParser(allow_abbrev=False)
parser.add_argument("--batch", type=int, default=32)
parser.add_argument("--steps", type=int, required=True)
parser.add_argument("--accelerator_step_ms", type=float, required=True)
given, _ = parser.parse_known_args()

hvd.init()
source = tfhet.TFRecordSource.from_directory(os.environ["SM_CHANNEL_TRAINING"])
photos = tfhet.Pipeline(source, "imagenet-train", batch_size=given.batch, seed=1)
weights = tf.Variable(tf.zeros([1000]))

for images, _labels in tfhet.distribute(photos).take(given.steps):
    time.sleep(given.accelerator_step_ms / 1e3)
    gradient = tf.fill(weights.shape, tf.reduce_mean(images[0]))
    weights.assign_sub(1e-3 * hvd.allreduce(gradient))
print(f"mean weight {float(tf.reduce_mean(weights)):.4f}")
