"""A training script that learns nothing: keeps the augmented examples that this rank was given, two epochs of them.

--marker FILE   with several ranks, rank 0 takes one batch and waits until rank 1 has seen the end of the epoch, so
                that the ranks' shares are as unequal as can be
"""

from __future__ import annotations

import argparse
import itertools
import time
from pathlib import Path

import numpy as np

from tfhet import planes
from tfhet.cluster import environment
from tfhet.pipeline import Pipeline
from tfhet.source import SyntheticSource
from tfhet.strategies import JobContext

CHAIN = """
dilate(size=3); gaussian_blur(size=5, sigma=0.8, backend="own"); rescale(); random_flip(horizontal=True);
random_rotation(factor=0.1); random_rotation(factor=0.1); random_zoom(factor=0.1)
"""


def wait_for(marker: Path) -> None:
    deadline = time.monotonic() + 60
    while not marker.exists():
        if time.monotonic() > deadline:
            raise SystemExit(f"{marker} did not come")
        time.sleep(0.02)


parser = argparse.ArgumentParser()
parser.add_argument("--marker", type=Path, required=True)
arguments = parser.parse_args()

job = JobContext.from_env(environment())
source = SyntheticSource(examples=203, splits=24, shape=(16, 16, 3), seed=3, uneven=True)
pipeline = Pipeline(source, CHAIN, batch_size=8, seed=job.seed, shuffle=20, record_parameters=True)
reader = planes.get(job.plane).rank_side().reader(pipeline, job)
reader.agree()
batches = []
for epoch in range(2):
    marker = arguments.marker.with_suffix(f".{epoch}")
    reader.offer(epoch)
    dataset = reader.dataset(epoch, None, 0)
    iterator = iter(dataset)
    mine = list(itertools.islice(iterator, 1))
    if job.rank == 0 and job.size > 1:
        wait_for(marker)
    mine += iterator
    if job.rank == 1:
        marker.touch()
    batches += mine
assert job.output_dir
columns = {}
for name, spec in dataset.element_spec.items():
    nothing = np.zeros([0, *spec.shape[1:]], spec.dtype.as_numpy_dtype)  # the others may have been quicker every time
    columns[name] = np.concatenate([nothing, *(batch[name].numpy() for batch in batches)])
np.savez(Path(job.output_dir) / f"examples-{job.rank}.npz", **columns)
