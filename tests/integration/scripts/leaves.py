"""A user's script that reads a pass of unknown length, breaks it off, and leaves the iterator to the end of Python.

--linger SECONDS    after the last batch
--thread            leaves a thread that never ends, too
"""

from __future__ import annotations

import argparse
import sys
import threading
import time

import tensorflow as tf

import tfhet

parser = argparse.ArgumentParser()
parser.add_argument("--linger", type=float, default=0.0)
parser.add_argument("--thread", action="store_true")
options, _ = parser.parse_known_args()


def spin() -> None:
    while True:
        time.sleep(1)


ds = tf.data.Dataset.range(100_000).filter(lambda number: True).batch(16)
iterator = iter(tfhet.distribute(ds))
for _ in range(60):
    next(iterator)
    time.sleep(0.05)
if options.thread:
    threading.Thread(target=spin, name="spinner").start()
time.sleep(options.linger)
sys.exit(7)
