"""A peer: another library that runs a chain, and the job that it gets."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

LINEAR, ANTIALIAS = "linear", "antialias"
"""Ways to resize: bilinear between the four nearest pixels, or over all source pixels under a result pixel. The images
differ, so each way is compared only with itself."""
PHOTO_CHAINS = ("imagenet-train", "imagenet-jitter", "imagenet-eval")
"""Chains of photos that every peer for photos runs."""
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Mean and standard deviation of ImageNet's channels, with 1 as the brightest level."""
Run = Callable[[], Iterator[np.ndarray]]
"""Starts one pass over all images, [batch, height, width, 3] at a time. No work is done before the first batch is
requested."""


@dataclass(frozen=True)
class Job:
    """One chain on some files, sent to the peer's process as JSON."""

    chain: str
    way: str
    """LINEAR or ANTIALIAS; "" for a chain that does not resize."""
    dtype: str
    """`float32`: the whole chain; `uint8`: without `normalize`."""
    files: tuple[str, ...]
    """JPEG files, or for a chain on small images one .npy file of uint8 [n, height, width, 3]."""
    batch_size: int
    threads: int
    seed: int = 0
    size: int = 224
    """Rows and columns of the result of a crop."""
    shorter: int = 256
    """The shorter side before a centre crop."""
    scale: tuple[float, float] = (0.08, 1.0)
    """Smallest and largest area of a random crop, as fractions of the image's area."""
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    """Smallest and largest width / height of a random crop."""
    flip: float = 0.5
    jitter: float = 0.4
    turns: float = 0.1
    zoom: float = 0.1
    """Probability of a flip; largest changes of colours, of the angle (in turns) and of the size, either way."""

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Job:
        fields: Any = {name: tuple(value) if isinstance(value, list) else value for name, value in document.items()}
        return cls(**fields)

    @property
    def normalization(self) -> tuple[np.ndarray, np.ndarray]:
        """Scale and offset, float32 [3] each, that normalize levels from 0 to 255."""
        std = np.array(STD)
        return (1.0 / (255.0 * std)).astype(np.float32), (-np.array(MEAN) / std).astype(np.float32)


@dataclass(frozen=True)
class Peer:
    """One library. Its packages are imported only in its own process."""

    name: str
    """The word on the command line and in figures."""
    words: str
    """Its name in tables."""
    imports: tuple[str, ...]
    """Modules that it needs."""
    requires: tuple[str, ...]
    """Packages that `--peers install` installs; () for a part of tfhet's own environment."""
    does: Mapping[str, tuple[str, ...]]
    """Ways in which it resizes, by chain; ("",) for a chain that does not resize."""
    build: Callable[[Job], Run]
    other_image: str = ""
    """Why its image is another one than tfhet's; "" for the same image. Such a peer never counts as the best one."""
    is_tfhet: bool = False
    """Whether it is tfhet itself outside TensorFlow: peers are compared with it, it is no peer."""

    @property
    def uses_tensorflow(self) -> bool:
        return "tensorflow" in self.imports


def from_files(job: Job, work: Callable[[str, np.ndarray, random.Random], object]) -> Run:
    """Returns batches of the images that `work(file, out, draw)` writes into `out`, [size, size, 3]."""

    def batch(begin: int, draw: random.Random) -> np.ndarray:
        files = job.files[begin : begin + job.batch_size]
        images = np.empty((len(files), job.size, job.size, 3), job.dtype)
        for file, out in zip(files, images, strict=True):
            work(file, out, draw)
        return images

    return in_batches(job, len(job.files), batch)


def in_batches(job: Job, count: int, batch: Callable[[int, random.Random], np.ndarray]) -> Run:
    """Returns the batches of `batch(index of the first image, draw)` over `count` images, on the job's threads."""
    begins = range(0, count, job.batch_size)
    draws = [random.Random(f"{job.seed}/{begin}") for begin in begins]
    if job.threads == 1:
        return lambda: map(batch, begins, draws)
    pool = ThreadPoolExecutor(min(job.threads, os.cpu_count() or 1))

    def run() -> Iterator[np.ndarray]:
        yield from pool.map(batch, begins, draws)

    return run
