"""A script that reads the digits from a feed or from Ray Data, and notes what it reads, as `witness_train.py` does.

`--reads feed`: from a function, whose data hosts read the TFRecord files; the ranks load no TensorFlow. `--reads ray`:
from Ray Data, whose tasks take so long that most of a pass is still to be made when it begins. `--reads cluster`: the
same as a script for Ray.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import tfhet
from tfhet.cluster import environment
from tfhet.planes.feed.source import Shard
from tfhet.strategies import JobContext

BLOCKS, TASK_S = 32, 0.1
"""Tasks of Ray Data for each pass, and seconds that each of them takes."""


class Digits:
    """A map-style dataset of all examples of a channel: pixels, uint8 [bytes], and label, int64."""

    def __init__(self, channel: str):
        import tensorflow as tf

        features = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}
        files = sorted(str(path) for path in Path(channel).glob("*.tfrecord*"))
        parsed = [tf.io.parse_single_example(record, features) for record in tf.data.TFRecordDataset(files)]
        self.examples = [(np.frombuffer(one["image"].numpy(), np.uint8), one["label"].numpy()) for one in parsed]

    def __len__(self) -> int:
        return len(self.examples)

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.int64]:
        return self.examples[index]


def make_digits(shard: Any, channel: str) -> Digits:
    """The source that the feed serves."""
    return Digits(channel)


def rows_of(numbers: dict[str, np.ndarray], **columns: np.ndarray) -> dict[str, np.ndarray]:
    """The rows of some columns with these numbers: a task of Ray Data."""
    time.sleep(TASK_S)
    return {name: column[numbers["id"]] for name, column in columns.items()}


def make_rows(shard: Any, channel: str) -> Any:
    """A data set of Ray Data: all examples of a channel, each with an id, in another order in each epoch."""
    import ray

    digits = Digits(channel)
    ids = np.random.default_rng(shard.epoch).permutation(len(digits))
    images, labels = zip(*digits.examples, strict=True)
    columns = {"id": ids, "image": np.stack(images)[ids], "label": np.stack(labels)[ids]}
    numbers = ray.data.range(len(digits), override_num_blocks=BLOCKS)
    return numbers.map_batches(rows_of, fn_kwargs=columns, batch_size=None)


class Passes:
    """The data of a script for Ray: batches of `make_rows`, of another epoch in each pass."""

    def __init__(self, channel: str, batch_size: int):
        import ray

        ray.init()
        self._channel, self._batch_size, self._epochs = channel, batch_size, itertools.count()

    def __iter__(self) -> Iterator[dict[str, np.ndarray]]:
        rows = make_rows(Shard(0, 1, next(self._epochs)), self._channel)
        return iter(rows.iter_batches(batch_size=self._batch_size))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--reads", choices=("feed", "ray", "cluster"), required=True)
    parser.add_argument("--batch_size", type=int, required=True)
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--step_ms", type=float, required=True)
    args = parser.parse_args()
    env, job = environment(), JobContext.from_env(environment())
    folder = Path(env.get("TFHET_WITNESS") or Path(env["SM_OUTPUT_DATA_DIR"]) / "witness")
    folder.mkdir(parents=True, exist_ok=True)
    log = os.open(folder / f"{job.rank}.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    channel = env["SM_CHANNEL_TRAINING"]
    if args.reads == "cluster":
        loader: Any = Passes(channel, args.batch_size)
    else:
        source, is_feed = (make_digits, True) if args.reads == "feed" else (make_rows, False)
        loader = tfhet.batches(source, arguments={"channel": channel}, batch_size=args.batch_size, shuffle=is_feed)
    for epoch in range(args.epochs):
        for batch in loader:
            images, labels = (batch["image"], batch["label"]) if isinstance(batch, dict) else batch
            pairs = zip(images, labels, strict=True)
            content = [hashlib.sha256(one.tobytes() + label.tobytes()).hexdigest()[:16] for one, label in pairs]
            time.sleep(1e-3 * args.step_ms)
            os.write(log, (json.dumps({"epoch": epoch, "content": content}) + "\n").encode())


if __name__ == "__main__":
    main()
