"""A user's script that reads a declared pipeline in a loop of its own, and trains nothing.

--epochs N      passes over the data
--stop N        ends after so many batches, in the middle of a pass
--prefetch N    holds so many batches ready, which the script may never take
--repeat        a wire that is broken: from the second batch on, every batch comes twice
--lose          a wire that is broken: the first file's examples never come
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import tensorflow as tf

import tfhet
from tfhet.cluster import environment
from tfhet.planes import RankSide
from tfhet.source import SyntheticSource, split_of
from tfhet.strategies import JobContext

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=1)
parser.add_argument("--stop", type=int, default=0)
parser.add_argument("--prefetch", type=int, default=0)
parser.add_argument("--repeat", action="store_true")
parser.add_argument("--lose", action="store_true")
options = parser.parse_args()

job = JobContext.from_env(environment())
source = SyntheticSource(examples=96, splits=12, shape=(8, 8, 3), seed=3)
pipeline = tfhet.Pipeline(source, "random_flip(); rescale()", batch_size=8)


def breaking(side: RankSide) -> None:
    """Makes the wire of this rank's plane deliver what it should not."""
    declared = side.declared

    def broken(*arguments: object) -> tf.data.Dataset:
        data = declared(*arguments)
        if options.repeat:
            data = data.flat_map(lambda element: tf.data.Dataset.from_tensors(element).repeat(2))
        if options.lose:
            data = data.filter(lambda element: tf.reduce_all(split_of(element["id"]) != 0))
        return data

    side.declared = broken


if options.repeat or options.lose:
    plane = tfhet.planes.get(job.plane)
    breaking(side := plane.rank_side())
    plane.rank_side = lambda: side

ds = tfhet.distribute(pipeline)
assert ds.element_spec[0].shape.as_list() == [None, 8, 8, 3] and len(ds.element_spec) == 2, ds.element_spec
ds = ds.prefetch(options.prefetch) if options.prefetch else ds
examples = batches = 0
for _ in range(options.epochs):
    for images, _labels in ds:
        examples, batches = examples + len(images), batches + 1
        time.sleep(0.02)
        if batches == options.stop:
            break
assert job.output_dir
(Path(job.output_dir) / f"taken-{job.rank}.json").write_text(json.dumps(examples))
