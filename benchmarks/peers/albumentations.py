"""albumentations' Compose on images that OpenCV decoded. Its dilation uses a disc, so it does not run `aws-cifar`."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from benchmarks.peers.peer import LINEAR, MEAN, PHOTO_CHAINS, STD, Job, Peer, Run, from_files


def _build(job: Job) -> Run:
    import albumentations
    import cv2

    cv2.setNumThreads(1)
    transform = albumentations.Compose(_steps(albumentations, cv2.INTER_LINEAR, job), seed=job.seed)

    def work(file: str, out: np.ndarray, draw: random.Random) -> None:
        out[...] = transform(image=cv2.imread(file, cv2.IMREAD_COLOR_RGB))["image"]

    return from_files(job, work)


def _steps(a: Any, linear: int, job: Job) -> list[Any]:
    if job.chain == "imagenet-eval":
        steps = [a.SmallestMaxSize(job.shorter, interpolation=linear), a.CenterCrop(job.size, job.size)]
    else:
        size = (job.size, job.size)
        crop = a.RandomResizedCrop(size, scale=job.scale, ratio=job.ratio, interpolation=linear)
        steps = [crop, a.HorizontalFlip(p=job.flip)]
    if job.chain == "imagenet-jitter":
        around = (1.0 - job.jitter, 1.0 + job.jitter)
        steps.append(a.ColorJitter(brightness=around, contrast=around, saturation=around, hue=(0, 0), p=1.0))
    return steps if job.dtype == "uint8" else [*steps, a.Normalize(mean=MEAN, std=STD)]


PEER = Peer(
    name="albumentations",
    words="albumentations",
    imports=("albumentations", "cv2"),
    requires=("albumentations==2.0.8", "opencv-python-headless==4.11.0.86", "numpy<2"),
    does=dict.fromkeys(PHOTO_CHAINS, (LINEAR,)),
    build=_build,
)
