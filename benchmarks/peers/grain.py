"""Grain, which loads and batches; the images are worked on by OpenCV, as it has no operations of its own."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import numpy as np

from benchmarks.peers.job import LINEAR, Job
from benchmarks.peers.opencv import photograph
from benchmarks.peers.peer import Peer


def _build(job: Job) -> Callable[[], Iterator[np.ndarray]]:
    import cv2
    import grain.python as grain

    cv2.setNumThreads(1)
    work = photograph(cv2, job)

    def read(file: str, draw: np.random.Generator) -> np.ndarray:
        out = np.empty((job.size, job.size, 3), job.dtype)
        work(cv2.imread(file, cv2.IMREAD_COLOR_RGB), out, random.Random(int(draw.integers(1 << 62))))
        return out

    data = grain.MapDataset.source(list(job.files)).seed(job.seed).random_map(read)
    options = grain.ReadOptions(num_threads=job.threads, prefetch_buffer_size=2 * job.batch_size)

    def go() -> Iterator[np.ndarray]:
        yield from data.to_iter_dataset(options).batch(job.batch_size, drop_remainder=False)

    return go


PEER = Peer(
    name="grain",
    words="Grain with OpenCV",
    imports=("grain.python", "cv2"),
    requires=("grain==0.2.11", "opencv-python-headless==4.11.0.86", "numpy<2"),
    does={"imagenet-train": (LINEAR,), "imagenet-jitter": (LINEAR,), "imagenet-eval": (LINEAR,)},
    build=_build,
)
