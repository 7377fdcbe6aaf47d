"""A script of many small steps on batches of `tfhet.torch.loader`, or of `tfhet.batches` where PyTorch is not there.

It writes its own memory down. `--way service`: batches of a tf.data.Dataset; `--way feed`: of a function of Python.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import psutil

import tfhet

HAS_TORCH = importlib.util.find_spec("torch") is not None
EVERY = 100
"""Steps between two looks."""


class Pictures:
    """A map-style dataset of `examples` pictures, each other than the one before."""

    def __init__(self, examples: int, size: int):
        self.examples, self.size = examples, size

    def __len__(self) -> int:
        return self.examples

    def __getitem__(self, index: int) -> tuple[np.ndarray, int]:
        return np.full(self.size, index % 256, np.uint8), index


def make_pictures(shard: Any, examples: int, size: int) -> Pictures:
    """The examples that the feed serves."""
    return Pictures(examples, size)


def dataset(examples: int, size: int, batch_size: int) -> Any:
    """The same, as a tf.data.Dataset without end."""
    import tensorflow as tf

    numbers = tf.data.Dataset.range(examples).shuffle(examples).repeat()
    made = numbers.map(lambda index: (tf.fill([size], tf.cast(index % 256, tf.uint8)), index))
    return made.batch(batch_size, drop_remainder=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--way", choices=("service", "feed"), required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--batch_size", type=int, required=True)
    parser.add_argument("--size", type=int, required=True)
    args = parser.parse_args()
    load: Any
    given = {"examples": 100 * args.batch_size, "size": args.size}
    if HAS_TORCH:
        import torch  # before TensorFlow

        from tfhet.torch import loader as load

        torch.set_num_threads(1)
    else:
        load = tfhet.batches
    if args.way == "feed":
        loader = load(make_pictures, arguments=given, batch_size=args.batch_size, shuffle=True)
    else:
        loader = load(dataset(**given, batch_size=args.batch_size))
    own, found, total = psutil.Process(), [], 0
    endless = itertools.chain.from_iterable(iter(loader) for _ in itertools.count())
    for step, (pictures, _) in enumerate(itertools.islice(endless, args.steps), 1):
        total += int(pictures[0, 0])
        if not step % EVERY:
            found.append(own.memory_info().rss)
    wrote = {"rss": found, "torch": HAS_TORCH, "total": total}
    Path(os.environ["SM_OUTPUT_DATA_DIR"], "memory.json").write_text(json.dumps(wrote))


if __name__ == "__main__":
    main()
