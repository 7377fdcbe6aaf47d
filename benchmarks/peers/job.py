"""The job that a peer is given: one chain, on these files, in this form."""

from __future__ import annotations

import dataclasses
import math
import os
import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

LINEAR, ANTIALIAS = "linear", "antialias"
"""Ways to resize: bilinear between the four nearest pixels, or over all source pixels that a result pixel covers. The
pictures differ, so each way is compared only with itself."""
REDUCED = "reduced"
"""Bilinear, of an image that was decoded at a fraction of its size where that is enough: another picture."""
RESIZING = (LINEAR, ANTIALIAS, REDUCED)
"""The ways of a chain on photographs."""
AS_WRITTEN, COMPOSED = "as-written", "composed"
"""Each geometric step by itself, or all of them as one sampling."""
STACKED = "stacked"
"""Composed, and before that all images of a batch as the channels of few."""
BATCHED, XLA = "batched", "xla"
"""Composed, on whole batches; compiled by XLA."""
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""ImageNet's, with 1 as the brightest level."""


@dataclass(frozen=True)
class Job:
    """Sent to the peer's process as JSON. The result is batches [batch, height, width, 3]."""

    chain: str
    """The name of the chain."""
    way: str
    """One of the ways above that the peer said it knows for this chain."""
    dtype: str
    """`float32`: the whole chain; `uint8`: without what makes it float (normalize, rescale)."""
    files: tuple[str, ...]
    """JPEG files, or for the chains on small images one .npy file of uint8 [n, height, width, 3]."""
    batch_size: int
    """Images in a batch; the last one may be smaller."""
    threads: int
    """How many may work at a time, from 1."""
    seed: int = 0
    """Seed of the random draws."""
    size: int = 224
    """Rows and columns of the result of a crop."""
    shorter: int = 256
    """The shorter side before the crop in the middle."""
    scale: tuple[float, float] = (0.08, 1.0)
    """Least and greatest area of a random crop, as fractions of the image's."""
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    """Least and greatest width / height of a random crop."""
    flip: float = 0.5
    """Probability of being mirrored left to right."""
    jitter: float = 0.4
    """Greatest change of brightness, contrast and saturation."""
    turns: float = 0.1
    """Greatest rotation either way, in turns."""
    zoom: float = 0.1
    """Greatest zoom either way."""

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Job:
        fields: dict[str, Any] = {
            n: tuple(value) if isinstance(value, list) else value for n, value in document.items()
        }
        return cls(**fields)

    def box(self, draw: random.Random, height: int, width: int) -> tuple[int, int, int, int]:
        """Top, left, rows and columns of a random crop, drawn as torchvision's RandomResizedCrop does."""
        for _ in range(10):
            area = draw.uniform(*self.scale) * height * width
            ratio = math.exp(draw.uniform(math.log(self.ratio[0]), math.log(self.ratio[1])))
            rows, columns = round(math.sqrt(area / ratio)), round(math.sqrt(area * ratio))
            if 0 < rows <= height and 0 < columns <= width:
                return draw.randint(0, height - rows), draw.randint(0, width - columns), rows, columns
        columns = min(width, round(height * self.ratio[1]))
        rows = min(height, round(width / self.ratio[0]))
        return (height - rows) // 2, (width - columns) // 2, rows, columns

    def middle(self, height: int, width: int) -> tuple[int, int]:
        """Rows and columns of the image brought to `shorter`, as torchvision's Resize counts them."""
        if height <= width:
            return self.shorter, int(self.shorter * width / height)
        return int(self.shorter * height / width), self.shorter

    def factor(self, draw: random.Random) -> float:
        """A random factor for brightness, contrast or saturation."""
        return draw.uniform(1.0 - self.jitter, 1.0 + self.jitter)


def from_files(
    job: Job, work: Callable[[str, np.ndarray, random.Random], object]
) -> Callable[[], Iterator[np.ndarray]]:
    """Batches of what `work(file, out, draw)` writes into its `out`, [size, size, 3]; batches side by side."""

    def fill(index: int, draw: random.Random) -> np.ndarray:
        files = job.files[index : index + job.batch_size]
        batch = np.empty((len(files), job.size, job.size, 3), job.dtype)
        for file, out in zip(files, batch, strict=True):
            work(file, out, draw)
        return batch

    return _batches(job, len(job.files), fill)


def from_images(
    job: Job, work: Callable[[np.ndarray, np.ndarray, random.Random], object]
) -> Callable[[], Iterator[np.ndarray]]:
    """Batches of what `work(images, out, draw)` writes into `out`: both [batch, height, width, 3], `out` of the job's
    dtype; batches side by side."""
    images = np.load(Path(job.files[0]))

    def fill(index: int, draw: random.Random) -> np.ndarray:
        given = images[index : index + job.batch_size]
        batch = np.empty(given.shape, job.dtype)
        work(given, batch, draw)
        return batch

    return _batches(job, len(images), fill)


def _batches(
    job: Job, count: int, fill: Callable[[int, random.Random], np.ndarray]
) -> Callable[[], Iterator[np.ndarray]]:
    begins = range(0, count, job.batch_size)
    draws = [random.Random(f"{job.seed}/{begin}") for begin in begins]
    if job.threads == 1:
        return lambda: map(fill, begins, draws)
    pool = ThreadPoolExecutor(min(job.threads, os.cpu_count() or 1))

    def go() -> Iterator[np.ndarray]:  # nothing is done before the first batch is asked for
        yield from pool.map(fill, begins, draws)

    return go


def normalized(job: Job) -> tuple[np.ndarray, np.ndarray]:
    """float32 [3] each: scale and offset that take 0..255 to ImageNet's spread."""
    std = np.array(STD)
    return (1.0 / (255.0 * std)).astype(np.float32), (-np.array(MEAN) / std).astype(np.float32)
