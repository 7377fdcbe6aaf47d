"""torchvision's transforms v2 on uint8 tensors, in the processes of PyTorch's DataLoader, as its authors advise."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks.peers.job import ANTIALIAS, LINEAR, MEAN, STD, Job
from benchmarks.peers.peer import Peer


def _build(job: Job) -> Callable[[], Iterator[np.ndarray]]:
    import torch
    from torch.utils.data import DataLoader
    from torchvision import io
    from torchvision.transforms import v2

    torch.set_num_threads(1)  # its processes run side by side
    torch.manual_seed(job.seed)
    transform = v2.Compose(_steps(torch, v2, job))

    class Photographs:
        def __len__(self) -> int:
            return len(job.files)

        def __getitem__(self, index: int) -> Any:
            content = io.read_file(job.files[index])
            return transform(io.decode_jpeg(content, mode=io.ImageReadMode.RGB))

    processes = min(job.threads, os.cpu_count() or 1)
    among: dict[str, Any] = {"multiprocessing_context": "fork", "persistent_workers": True}
    loader = DataLoader(
        Photographs(),
        job.batch_size,
        num_workers=processes if processes > 1 else 0,
        generator=torch.Generator().manual_seed(job.seed),
        **(among if processes > 1 else {}),
    )

    def go() -> Iterator[np.ndarray]:  # nothing is done before the first batch is asked for
        for batch in loader:
            yield batch.permute(0, 2, 3, 1).numpy()

    return go


def _steps(torch: Any, v2: Any, job: Job) -> list[Any]:
    antialias = job.way == ANTIALIAS
    if job.chain == "imagenet-eval":
        steps = [v2.Resize(job.shorter, antialias=antialias), v2.CenterCrop(job.size)]
    else:
        size = (job.size, job.size)
        steps = [
            v2.RandomResizedCrop(size, scale=job.scale, ratio=job.ratio, antialias=antialias),
            v2.RandomHorizontalFlip(job.flip),
        ]
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
    does={
        "imagenet-train": (LINEAR, ANTIALIAS),
        "imagenet-jitter": (LINEAR, ANTIALIAS),
        "imagenet-eval": (LINEAR, ANTIALIAS),
        "randaugment-224": (LINEAR, ANTIALIAS),
    },
    build=_build,
)
