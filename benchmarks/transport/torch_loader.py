"""PyTorch's DataLoader: a worker process collates batches of tensors that lie in its memory into shared memory, which
this process is handed. Nothing goes over a network."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import psutil

from benchmarks.transport.raw_socket import WAIT_S, contents
from tfhet.bench.wire.end import End

IN_FLIGHT = 2
"""Batches that the worker is ahead: DataLoader's own default."""


def read(size: int) -> End:
    """Tells the process ids of its `workers`, and how many batches they are `ahead`."""
    from torch import frombuffer, uint8
    from torch.utils.data import DataLoader, IterableDataset

    class Held(IterableDataset):
        def __iter__(self) -> Iterator[Any]:
            return itertools.cycle([frombuffer(batch, dtype=uint8) for batch in contents(size)])

    loader = DataLoader(
        Held(),
        batch_size=1,
        num_workers=1,
        prefetch_factor=IN_FLIGHT,
        timeout=WAIT_S,
        multiprocessing_context="fork",
    )
    batches = iter(loader)

    def pull(count: int) -> None:
        for _ in range(count):
            if (got := next(batches).numel()) != size:
                raise AssertionError(f"{got} bytes came instead of {size}")

    pull(1)
    return End(
        pull, {"workers": [child.pid for child in psutil.Process().children(recursive=True)], "ahead": IN_FLIGHT}
    )
