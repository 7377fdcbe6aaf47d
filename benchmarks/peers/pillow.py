"""Pillow, with torchvision's steps: its transforms on PIL images are these calls, plus the way into a tensor."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import numpy as np

from benchmarks.peers.job import ANTIALIAS, Job, from_files, normalized
from benchmarks.peers.peer import Peer


def _build(job: Job) -> Callable[[], Iterator[np.ndarray]]:
    from PIL import Image, ImageEnhance

    scale, offset = normalized(job)
    linear, mirror = Image.Resampling.BILINEAR, Image.Transpose.FLIP_LEFT_RIGHT

    def work(file: str, out: np.ndarray, draw: random.Random) -> None:
        with Image.open(file) as opened:
            image = opened.convert("RGB")
        if job.chain == "imagenet-eval":
            rows, columns = job.middle(image.height, image.width)
            image = image.resize((columns, rows), linear)
            top, left = (rows - job.size) // 2, (columns - job.size) // 2
            image = image.crop((left, top, left + job.size, top + job.size))
        else:
            top, left, rows, columns = job.box(draw, image.height, image.width)
            image = image.crop((left, top, left + columns, top + rows)).resize((job.size, job.size), linear)
            if draw.random() < job.flip:
                image = image.transpose(mirror)
        if job.chain == "imagenet-jitter":
            for enhance in (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color):
                image = enhance(image).enhance(job.factor(draw))
        if job.dtype == "uint8":
            out[...] = image
        else:
            np.multiply(np.asarray(image), scale, out=out)
            out += offset

    return from_files(job, work)


PEER = Peer(
    name="pillow",
    words="Pillow, torchvision's steps",
    imports=("PIL",),
    requires=("pillow>=10",),
    does={"imagenet-train": (ANTIALIAS,), "imagenet-jitter": (ANTIALIAS,), "imagenet-eval": (ANTIALIAS,)},
    build=_build,
)
