"""A loop of two ranks that sum a number in each step; in the fourth step, one of them hangs or both of them fail."""

from __future__ import annotations

import sys
import time

import tensorflow as tf

import tfhet
import tfhet.horovod as hvd


def stuck() -> None:
    time.sleep(600)


hvd.init()
data = tfhet.distribute(tf.data.Dataset.range(1000).repeat().batch(10))
for step, batch in enumerate(data):
    if step == 4 and "--both_fail" in sys.argv:
        raise ValueError(f"rank {hvd.rank()} has had enough")
    if step == 4 and hvd.rank() == 1:
        stuck()
    hvd.allreduce(tf.cast(tf.reduce_sum(batch), tf.float32), name=f"sum-{step}")
