"""OpenCV as its users write it: a photo is decoded whole, then cropped, resized and flipped.

`photos` does this after any decoder. Small images are dilated and blurred many at a time, as channels of one image, and
sampled once each.
"""

from __future__ import annotations

import functools
import math
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.peers.peer import LINEAR, PHOTO_CHAINS, Job, Peer, Run, from_files, in_batches

STACKED = 170
"""Images in a stack: OpenCV takes up to 512 channels."""


def _build(job: Job) -> Run:
    import cv2

    if job.chain == "aws-cifar":
        cv2.setNumThreads(1)  # batches run in parallel
        images, alone = np.load(job.files[0]), replace(job, threads=1)  # threads would compete for Python's lock
        return in_batches(
            alone, len(images), lambda begin, draw: _small(cv2, job, images[begin : begin + job.batch_size], draw)
        )
    return photos(job, lambda file: cv2.imread(file, cv2.IMREAD_COLOR_RGB))


Window = Callable[[str, random.Random], np.ndarray]


def photos(job: Job, decode: Callable[[str], np.ndarray], window: Window | None = None) -> Run:
    """Returns the batches of a chain of photos. decode: file -> image, uint8 [height, width, 3]. window: (file, draw)
    -> a random part of the image; None to cut it out of the decoded image."""
    import cv2

    cv2.setNumThreads(1)  # batches run in parallel
    scale, offset = job.normalization
    table = (np.arange(256, dtype=np.float32)[:, None] * scale + offset).reshape(256, 1, 3)

    def cut(file: str, draw: random.Random) -> np.ndarray:
        image = decode(file)
        top, left, rows, columns = box(job, draw, *image.shape[:2])
        return image[top : top + rows, left : left + columns]

    return from_files(job, functools.partial(_photo, cv2, job, table, decode, window or cut))


def _photo(
    cv2: Any,
    job: Job,
    table: np.ndarray,
    decode: Callable[[str], np.ndarray],
    window: Window,
    file: str,
    out: np.ndarray,
    draw: random.Random,
) -> None:
    if job.chain == "imagenet-eval":
        image = decode(file)
        height, width = image.shape[:2]
        size = tuple(side * job.shorter // min(height, width) for side in (width, height))
        image = cv2.resize(image, size, interpolation=cv2.INTER_LINEAR)
        top, left = ((side - job.size) // 2 for side in image.shape[:2])
        image = image[top : top + job.size, left : left + job.size]
    else:
        image = cv2.resize(window(file, draw), (job.size, job.size), interpolation=cv2.INTER_LINEAR)
        image = cv2.flip(image, 1) if draw.random() < job.flip else image
    if job.chain == "imagenet-jitter":
        brightness, contrast, saturation = (draw.uniform(1.0 - job.jitter, 1.0 + job.jitter) for _ in range(3))
        mean = brightness * float(cv2.mean(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY))[0])
        image = cv2.convertScaleAbs(image, alpha=brightness * contrast, beta=(1.0 - contrast) * mean)
        grey = cv2.cvtColor(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY), cv2.COLOR_GRAY2RGB)
        image = cv2.addWeighted(image, saturation, grey, 1.0 - saturation, 0.0)
    if job.dtype == "uint8":
        out[...] = image
    else:
        cv2.LUT(image, table, dst=out)


def box(job: Job, draw: random.Random, height: int, width: int) -> tuple[int, int, int, int]:
    """Returns top, left, rows and columns of a random crop, drawn like torchvision's RandomResizedCrop."""
    for _ in range(10):
        area = draw.uniform(*job.scale) * height * width
        ratio = math.exp(draw.uniform(math.log(job.ratio[0]), math.log(job.ratio[1])))
        rows, columns = round(math.sqrt(area / ratio)), round(math.sqrt(area * ratio))
        if 0 < rows <= height and 0 < columns <= width:
            return draw.randint(0, height - rows), draw.randint(0, width - columns), rows, columns
    columns, rows = min(width, round(height * job.ratio[1])), min(height, round(width / job.ratio[0]))
    return (height - rows) // 2, (width - columns) // 2, rows, columns


def _small(cv2: Any, job: Job, images: np.ndarray, draw: random.Random) -> np.ndarray:
    count, rows, columns, channels = images.shape
    soft, levels = np.empty_like(images), np.empty_like(images)
    for begin in range(0, count, STACKED):
        stack = images[begin : begin + STACKED]
        deep = np.ascontiguousarray(stack.transpose(1, 2, 0, 3)).reshape(rows, columns, -1)
        deep = cv2.dilate(deep, np.ones((3, 3), np.uint8))
        deep = cv2.GaussianBlur(deep, (11, 11), 0.8, borderType=cv2.BORDER_REFLECT_101)
        soft[begin : begin + len(stack)] = deep.reshape(rows, columns, len(stack), channels).transpose(2, 0, 1, 3)
    turn, zoom, flip = np.random.default_rng(draw.getrandbits(63)).random((3, count))
    angle, zoom = 2.0 * math.pi * job.turns * (2.0 * turn - 1.0), 1.0 + job.zoom * (2.0 * zoom - 1.0)
    mirror = np.where(flip < job.flip, -1.0, 1.0)
    cos, sin, x, y = zoom * np.cos(angle), zoom * np.sin(angle), (columns - 1) / 2.0, (rows - 1) / 2.0
    across = [mirror * cos, -mirror * sin, x - mirror * (cos * x - sin * y)]
    matrices = np.array([across, [sin, cos, y - sin * x - cos * y]]).transpose(2, 0, 1)
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    for image, matrix, result in zip(soft, matrices, levels, strict=True):
        cv2.warpAffine(image, matrix, (columns, rows), dst=result, flags=flags, borderMode=cv2.BORDER_REFLECT)
    return np.multiply(levels, np.float32(1 / 255), dtype=np.float32)


PEER = Peer(
    name="opencv",
    words="OpenCV",
    imports=("cv2",),
    requires=("opencv-python-headless==4.11.0.86", "numpy<2"),
    does={"aws-cifar": ("",), **dict.fromkeys(PHOTO_CHAINS, (LINEAR,))},
    build=_build,
)
