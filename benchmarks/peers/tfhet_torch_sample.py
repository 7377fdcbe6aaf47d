"""tfhet in PyTorch: `tfhet.torch.stages` for each sample in the Dataset of a DataLoader with worker processes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.peers import tfhet_torch
from benchmarks.peers.peer import Job, Run
from benchmarks.peers.tfhet_numpy import chain_of, images_of


def _build(job: Job) -> Run:
    import torch
    from torch.utils.data import DataLoader

    import tfhet.torch

    torch.set_num_threads(1)  # worker processes run in parallel
    transform, images = tfhet.torch.stages(chain_of(job), seed=job.seed), images_of(job)

    class Images:
        def __len__(self) -> int:
            return len(images)

        def __getitem__(self, index: int) -> Any:
            return transform(images[index], id=index)

    workers = min(job.threads, os.cpu_count() or 1)
    among = {"num_workers": workers, "multiprocessing_context": "fork", "persistent_workers": True}
    loader = DataLoader(Images(), job.batch_size, **(among if workers > 1 else {}))

    def run() -> Iterator[np.ndarray]:
        for batch in loader:
            yield batch.permute(0, 2, 3, 1).numpy()

    return run


PEER = replace(
    tfhet_torch.PEER, name="torch-sample", words="tfhet in PyTorch, per sample in a DataLoader", build=_build
)
