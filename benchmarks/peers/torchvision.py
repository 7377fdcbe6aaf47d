"""torchvision's transforms v2 on uint8 tensors, in the worker processes of PyTorch's DataLoader."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.peers.peer import ANTIALIAS, LINEAR, MEAN, PHOTO_CHAINS, STD, Job, Peer, Run


def _build(job: Job) -> Run:
    import torch
    from torch.utils.data import DataLoader
    from torchvision import io
    from torchvision.transforms import v2

    torch.set_num_threads(1)  # worker processes run in parallel
    torch.manual_seed(job.seed)
    transform = v2.Compose(steps_of(torch, v2, job))

    class Photos:
        def __len__(self) -> int:
            return len(job.files)

        def __getitem__(self, index: int) -> Any:
            return transform(io.decode_jpeg(io.read_file(job.files[index]), mode=io.ImageReadMode.RGB))

    workers = min(job.threads, os.cpu_count() or 1)
    among = {"num_workers": workers, "multiprocessing_context": "fork", "persistent_workers": True}
    seeded = torch.Generator().manual_seed(job.seed)
    loader = DataLoader(Photos(), job.batch_size, generator=seeded, **(among if workers > 1 else {}))

    def run() -> Iterator[np.ndarray]:
        for batch in loader:
            yield batch.permute(0, 2, 3, 1).numpy()

    return run


def steps_of(torch: Any, v2: Any, job: Job) -> list[Any]:
    """Returns the transforms of the job's chain."""
    antialias = job.way == ANTIALIAS
    if job.chain == "imagenet-eval":
        steps = [v2.Resize(job.shorter, antialias=antialias), v2.CenterCrop(job.size)]
    else:
        crop = v2.RandomResizedCrop(job.size, scale=job.scale, ratio=job.ratio, antialias=antialias)
        steps = [crop, v2.RandomHorizontalFlip(job.flip)]
    if job.chain == "imagenet-jitter":
        steps.append(v2.ColorJitter(job.jitter, job.jitter, job.jitter))
    if job.chain == "randaugment-224":
        steps.append(v2.RandAugment(num_ops=2, magnitude=9, interpolation=v2.InterpolationMode.BILINEAR))
    if job.dtype == "uint8":
        return steps
    return [*steps, v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD, inplace=True)]


PEER = Peer(
    name="torchvision",
    words="torchvision v2",
    imports=("torch", "torchvision"),
    requires=("torch==2.14.1", "torchvision==0.29.1", "numpy<2"),
    does=dict.fromkeys((*PHOTO_CHAINS, "randaugment-224"), (LINEAR, ANTIALIAS)),
    build=_build,
)
