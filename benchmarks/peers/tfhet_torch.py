"""tfhet in PyTorch: `tfhet.torch.stages` on whole batches, whose threads take the place of worker processes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.peers.peer import Job, Peer, Run
from benchmarks.peers.tfhet_numpy import DOES, batches_of, chain_of, images_of
from benchmarks.peers.torchvision import PEER as TORCHVISION


def run_of(job: Job, *, channels_last: bool) -> Run:
    """Returns batches as tensors. channels_last: their memory format, for which no copy is needed."""
    import tfhet.torch

    transform = tfhet.torch.stages(chain_of(job), seed=job.seed, threads=job.threads, channels_last=channels_last)
    source = images_of(job)

    def run() -> Iterator[np.ndarray]:
        for images, ids in batches_of(source, job.batch_size):
            yield transform(images, ids=ids).permute(0, 2, 3, 1).numpy()

    return run


PEER = Peer(
    name="torch",
    words="tfhet in PyTorch",
    imports=("torch",),
    requires=TORCHVISION.requires,
    does=DOES,
    build=lambda job: run_of(job, channels_last=False),
    is_tfhet=True,
)
