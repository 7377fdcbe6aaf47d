"""tfhet on NumPy arrays: the chain by the compiled core, in a process without TensorFlow."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers.peer import ANTIALIAS, LINEAR, PHOTO_CHAINS, Job, Peer, Run
from tfhet import stages
from tfhet.stages import CompiledChain

PHOTOS, SMALL = (*PHOTO_CHAINS, "randaugment-224"), ("aws-cifar", "digits", "none")
DOES = {**dict.fromkeys(PHOTOS, (LINEAR, ANTIALIAS)), **dict.fromkeys(SMALL, ("",))}


def chain_of(job: Job) -> CompiledChain:
    """Returns the job's chain in its form."""
    found = [stage for stage in stages.chain(job.chain) if job.dtype == "float32" or stage.name != "normalize"]
    for place, stage in enumerate(found):
        if any(field.name == "antialias" for field in dataclasses.fields(stage)):
            found[place] = dataclasses.replace(stage, antialias=job.way == ANTIALIAS)  # type: ignore[call-arg]
    return stages.compile(found)


class Files:
    """Contents of files, which are read when they are indexed."""

    def __init__(self, paths: Sequence[str]):
        self._paths = paths

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, index: Any) -> Any:
        found = self._paths[index]
        return Path(found).read_bytes() if isinstance(found, str) else [Path(path).read_bytes() for path in found]


def images_of(job: Job) -> Files | np.ndarray:
    """Returns the job's images: contents of JPEG files, or uint8 [n, height, width, 3]."""
    return Files(job.files) if job.way else np.load(job.files[0])


def batches_of(images: Files | np.ndarray, size: int) -> Iterator[tuple[list[bytes] | np.ndarray, np.ndarray]]:
    """Yields batches of images, and their ids."""
    for begin in range(0, len(images), size):
        batch = images[begin : begin + size]
        yield batch, np.arange(begin, begin + len(batch))


def _build(job: Job) -> Run:
    chain, source = chain_of(job), images_of(job)

    def run() -> Iterator[np.ndarray]:
        for images, ids in batches_of(source, job.batch_size):
            yield chain(images, ids=ids, seed=job.seed, threads=job.threads)

    return run


PEER = Peer(
    name="numpy", words="tfhet on NumPy", imports=("numpy",), requires=(), does=DOES, build=_build, is_tfhet=True
)
