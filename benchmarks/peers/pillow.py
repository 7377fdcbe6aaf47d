"""Pillow: a photo is decoded whole, without `draft()`, then cropped and resized in one call, and flipped."""

from __future__ import annotations

import random

import numpy as np

from benchmarks.peers.opencv import box
from benchmarks.peers.peer import ANTIALIAS, PHOTO_CHAINS, Job, Peer, Run, from_files


def _build(job: Job) -> Run:
    from PIL import Image, ImageEnhance

    scale, offset = job.normalization
    small = (job.size, job.size)

    def work(file: str, out: np.ndarray, draw: random.Random) -> None:
        with Image.open(file) as photo:
            image = photo if photo.mode == "RGB" else photo.convert("RGB")
            width, height = image.size
            if job.chain == "imagenet-eval":
                columns, rows = (side * job.shorter // min(width, height) for side in (width, height))
                left, top = (columns - job.size) // 2, (rows - job.size) // 2
                image = image.resize((columns, rows), Image.Resampling.BILINEAR)
                image = image.crop((left, top, left + job.size, top + job.size))
            else:
                top, left, rows, columns = box(job, draw, height, width)
                image = image.resize(small, Image.Resampling.BILINEAR, (left, top, left + columns, top + rows))
                if draw.random() < job.flip:
                    image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        if job.chain == "imagenet-jitter":
            for change in (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color):
                image = change(image).enhance(draw.uniform(1.0 - job.jitter, 1.0 + job.jitter))
        levels = np.asarray(image)
        if job.dtype == "uint8":
            out[...] = levels
        else:
            np.multiply(levels, scale, out=out)
            out += offset

    return from_files(job, work)


PEER = Peer(
    name="pillow",
    words="Pillow",
    imports=("PIL",),
    requires=("pillow==13.0.0",),
    does=dict.fromkeys(PHOTO_CHAINS, (ANTIALIAS,)),
    build=_build,
)
