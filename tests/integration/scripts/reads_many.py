"""A script of 2,000 small steps that writes down its resident memory. `--reads`: `service`, a dataset; `feed`."""

from __future__ import annotations

import argparse
import itertools
import json
import os
from pathlib import Path

import numpy as np
import psutil

import tfhet

STEPS, EVERY, BATCH_SIZE, SIZE = 2000, 20, 16, 16 * 1024
"""Steps; steps between two looks; examples of a batch; bytes of an example: 262 kB a step."""
EXAMPLES = 100 * BATCH_SIZE


class Images:
    def __len__(self) -> int:
        return EXAMPLES

    def __getitem__(self, index: int) -> np.ndarray:
        return np.full(SIZE, index % 256, np.uint8)


def make_images(shard) -> Images:
    return Images()


def dataset():
    import tensorflow as tf

    numbers = tf.data.Dataset.range(EXAMPLES).shuffle(EXAMPLES).repeat()
    return numbers.map(lambda index: tf.fill([SIZE], tf.cast(index % 256, tf.uint8))).batch(BATCH_SIZE, True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--reads", choices=("service", "feed"))
    if parser.parse_args().reads == "feed":
        loader = tfhet.batches(make_images, batch_size=BATCH_SIZE, shuffle=True)
    else:
        loader = tfhet.batches(dataset())
    own, found = psutil.Process(), []
    endless = itertools.chain.from_iterable(iter(loader) for _ in itertools.count())
    for step, batch in enumerate(itertools.islice(endless, STEPS), 1):
        assert batch.shape == (BATCH_SIZE, SIZE)
        if step % EVERY == 0:
            found.append(own.memory_info().rss)
    Path(os.environ["SM_OUTPUT_DATA_DIR"], "memory.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
