"""OpenCV as its users write it: the whole image decoded, then cut, resized, mirrored."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.peers.job import AS_WRITTEN, COMPOSED, LINEAR, STACKED, Job, from_files, from_images, normalized
from benchmarks.peers.peer import Peer

CHANNELS = 510
"""Channels of one stack of images: OpenCV takes up to 512."""


def _build(job: Job) -> Callable[[], Iterator[np.ndarray]]:
    import cv2

    cv2.setNumThreads(1)  # batches run side by side
    if job.chain == "aws-cifar":
        # Calls for images this small fight for Python's lock. One thread is what each of many processes would take,
        # if handing images over cost nothing.
        return from_images(replace(job, threads=1), _small(cv2, job))
    work = photograph(cv2, job)

    def read(file: str, out: np.ndarray, draw: random.Random) -> None:
        work(cv2.imread(file, cv2.IMREAD_COLOR_RGB), out, draw)

    return from_files(job, read)


def photograph(cv2: Any, job: Job) -> Callable[[np.ndarray, np.ndarray, random.Random], None]:
    """(decoded image, out, draw): cut, resized, mirrored, jittered and normalized into `out`, as the chain says."""
    finish = finished(cv2, job)

    def work(image: np.ndarray, out: np.ndarray, draw: random.Random) -> None:
        finish(framed(cv2, job, draw, image.shape[:2], lambda shrunk: image), out, draw)

    return work


def framed(
    cv2: Any, job: Job, draw: random.Random, size: tuple[int, ...], decode: Callable[[float], np.ndarray]
) -> np.ndarray:
    """uint8 [size, size, 3]: the part of an image that the chain keeps, resized, perhaps mirrored. size: rows and
    columns of the image. decode: (how many times the chain shrinks it) -> the image, or the image at a fraction."""
    height, width = size
    if job.chain == "imagenet-eval":
        rows, columns = job.middle(height, width)
        image = cv2.resize(decode(height / rows), (columns, rows), interpolation=cv2.INTER_LINEAR)
        top, left = (rows - job.size) // 2, (columns - job.size) // 2
        return image[top : top + job.size, left : left + job.size]
    top, left, rows, columns = job.box(draw, height, width)
    image = decode(min(rows, columns) / job.size)
    by = round(height / image.shape[0])
    part = image[top // by : (top + rows) // by, left // by : (left + columns) // by]
    image = cv2.resize(part, (job.size, job.size), interpolation=cv2.INTER_LINEAR)
    return cv2.flip(image, 1) if draw.random() < job.flip else image


def finished(cv2: Any, job: Job) -> Callable[[np.ndarray, np.ndarray, random.Random], None]:
    """(framed image, out, draw): jittered and normalized into `out`, as the chain says."""
    scale, offset = normalized(job)
    levels = np.arange(256, dtype=np.float32)[:, None, None]
    table = np.ascontiguousarray((levels * scale + offset).reshape(256, 1, 3))

    def finish(image: np.ndarray, out: np.ndarray, draw: random.Random) -> None:
        if job.chain == "imagenet-jitter":
            image = _jittered(cv2, image, job, draw)
        if job.dtype == "uint8":
            out[...] = image
        else:
            cv2.LUT(image, table, dst=out)

    return finish


def _jittered(cv2: Any, image: np.ndarray, job: Job, draw: random.Random) -> np.ndarray:
    """Brightness and contrast as one table, saturation as a blend with the grey image."""
    brightness, contrast, saturation = (job.factor(draw) for _ in range(3))
    mean = brightness * float(cv2.mean(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY))[0])
    image = cv2.convertScaleAbs(image, alpha=brightness * contrast, beta=(1.0 - contrast) * mean)
    grey = cv2.cvtColor(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY), cv2.COLOR_GRAY2RGB)
    return cv2.addWeighted(image, saturation, grey, 1.0 - saturation, 0.0)


def _small(cv2: Any, job: Job) -> Callable[[np.ndarray, np.ndarray, random.Random], None]:
    square = np.ones((3, 3), np.uint8)

    def transform(draw: random.Random, rows: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
        """Input points of output points, as WARP_INVERSE_MAP wants them: of the rotation, of the zoom."""
        angle = draw.uniform(-job.turns, job.turns) * 2.0 * math.pi
        zoom = 1.0 + draw.uniform(-job.zoom, job.zoom)
        cos, sin = math.cos(angle), math.sin(angle)
        x, y = (columns - 1) / 2.0, (rows - 1) / 2.0
        turned = np.array([[cos, -sin, x - cos * x + sin * y], [sin, cos, y - sin * x - cos * y]])
        return turned, np.array([[zoom, 0.0, x * (1.0 - zoom)], [0.0, zoom, y * (1.0 - zoom)]])

    def sampled(image: np.ndarray, matrix: np.ndarray, **where: Any) -> np.ndarray:
        flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
        size = (image.shape[1], image.shape[0])
        return cv2.warpAffine(image, matrix, size, flags=flags, borderMode=cv2.BORDER_REFLECT, **where)

    def blurred(image: np.ndarray) -> np.ndarray:
        return cv2.GaussianBlur(cv2.dilate(image, square), (11, 11), 0.8, borderType=cv2.BORDER_REFLECT_101)

    def as_written(images: np.ndarray, out: np.ndarray, draw: random.Random) -> None:
        for image, result in zip(images, out, strict=True):
            image = blurred(image).astype(np.float32) * np.float32(1 / 255)
            if draw.random() < job.flip:
                image = cv2.flip(image, 1)
            turned, zoomed = transform(draw, *image.shape[:2])
            sampled(sampled(image, turned), zoomed, dst=result)

    def composed(images: np.ndarray, out: np.ndarray, draw: random.Random) -> None:
        levels = np.empty(images.shape, np.uint8)
        for image, result in zip(images, levels, strict=True):
            turned, zoomed = transform(draw, *image.shape[:2])
            matrix = turned @ np.vstack([zoomed, (0.0, 0.0, 1.0)])
            if draw.random() < job.flip:
                matrix[0] *= -1.0
                matrix[0, 2] += image.shape[1] - 1.0
            sampled(blurred(image), matrix, dst=result)
        np.multiply(levels, np.float32(1 / 255), out=out)

    def stacked(images: np.ndarray, out: np.ndarray, draw: random.Random) -> None:
        count, rows, columns, channels = images.shape
        soft = np.empty_like(images)
        for begin in range(0, count, CHANNELS // channels):
            some = images[begin : begin + CHANNELS // channels]
            deep = np.ascontiguousarray(some.transpose(1, 2, 0, 3)).reshape(rows, columns, -1)
            done = blurred(deep).reshape(rows, columns, len(some), channels)
            soft[begin : begin + len(some)] = done.transpose(2, 0, 1, 3)
        levels = np.empty_like(images)
        turns = np.array([transform(draw, rows, columns) for _ in range(count)])
        matrices = turns[:, 0, :, :2] @ turns[:, 1]
        matrices[:, :, 2] += turns[:, 0, :, 2]
        mirrored = np.array([draw.random() < job.flip for _ in range(count)])
        matrices[mirrored, 0] *= -1.0
        matrices[mirrored, 0, 2] += columns - 1.0
        for image, result, matrix in zip(soft, levels, matrices, strict=True):
            sampled(image, matrix, dst=result)
        np.multiply(levels, np.float32(1 / 255), out=out)

    return {COMPOSED: composed, STACKED: stacked}.get(job.way, as_written)


PEER = Peer(
    name="opencv",
    words="OpenCV",
    imports=("cv2",),
    requires=("opencv-python-headless==4.11.0.86", "numpy<2"),
    does={
        "aws-cifar": (AS_WRITTEN, COMPOSED, STACKED),
        "imagenet-train": (LINEAR,),
        "imagenet-jitter": (LINEAR,),
        "imagenet-eval": (LINEAR,),
    },
    build=_build,
    on_one_thread=("aws-cifar",),
)
