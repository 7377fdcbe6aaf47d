"""Trains and validates by plain data sets, epoch after epoch, until the job ends."""

from __future__ import annotations

import itertools
import time

import tensorflow as tf

import tfhet

train = tfhet.distribute(tf.data.Dataset.range(400).batch(4))
validation = tfhet.distribute(tf.data.Dataset.range(101).batch(5), training=False)
for epoch in itertools.count():
    for _ in train:
        time.sleep(0.01)
    print("epoch", epoch, "validated", sum(len(batch) for batch in validation), flush=True)
