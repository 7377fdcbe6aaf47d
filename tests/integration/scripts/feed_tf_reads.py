"""A script whose tf.data pipeline holds Python, which the feed runs on the data hosts; Keras trains on it, too."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import tensorflow as tf

import tfhet
from tfhet.planes.feed import Shard

EXAMPLES, BATCH_SIZE = 240, 8


def located(number):
    """Python that needs a process: it says in which one it ran."""
    return number, f"{os.environ['SM_CURRENT_HOST']}/{os.getpid()}".encode()


def make_numbers(shard, examples):
    def numbers():
        yield from range(shard.index, examples, shard.count)

    def with_place(number):
        number, place = tf.numpy_function(located, [number], [tf.int64, tf.string])
        return tf.ensure_shape(number, []), tf.ensure_shape(place, [])

    made = tf.data.Dataset.from_generator(numbers, output_signature=tf.TensorSpec([], tf.int64))
    return made.shuffle(examples).map(with_place).batch(BATCH_SIZE)


def read(data):
    batches = []
    for numbers, places in data:
        batches.append((numbers.numpy(), places.numpy()))
        time.sleep(0.02)  # the passes compute longer than `fit` does: the record is of them
    return [[int(one), place.decode()] for batch in batches for one, place in zip(*batch, strict=True)]


def main() -> None:
    arguments = {"examples": EXAMPLES}
    if "dataset" in sys.argv:
        tfhet.distribute(make_numbers(Shard(0, 1), **arguments))
    train = tfhet.distribute(make_numbers, arguments=arguments)
    found = {"epochs": [read(train), read(train)]}
    found["held_out"] = read(tfhet.distribute(make_numbers, arguments=arguments, training=False))
    endless = tfhet.distribute(make_numbers, arguments=arguments, steps_per_epoch=5)
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    pairs = endless.map(lambda number, _: (tf.cast(number[:, None], tf.float32) / 1e3, tf.zeros_like(number)))
    found["fits"] = len(model.fit(pairs, epochs=2, verbose=0).history["loss"])
    Path(os.environ["SM_OUTPUT_DATA_DIR"], "feed.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
