"""A load: what is moved over tf.data service, and between how many processes."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass

from tfhet.errors import UsageError, unknown
from tfhet.units import KB, MB

PREFIX = "transport"
"""First part of the figures' names."""
CLIENT, WORKER, RATE, RATIO = "client_cpu_s_per_gb", "worker_cpu_s_per_gb", "gb_per_s", "wire_ratio"
PLAIN, SNAPPY = "none", "snappy"
COMPRESSIONS = (PLAIN, SNAPPY)
DEFAULT = "default"
"""Name of the C library's allocator, which jobs have unless another one is preloaded."""
DTYPES = ("uint8", "float32")
MOST_BYTES = 1_000_000_000
"""Maximum size of a batch: a protobuf message ends at 2 GiB, and a worker holds at least two batches."""
MOST_PROCESSES = 64


@dataclass(frozen=True)
class Load:
    """Batches of one tensor each, and the processes between which they move. Raises UsageError for wrong values."""

    dtype: str
    size: str
    """Bytes of a batch, as figures name it: whole kB or MB."""
    compression: str = PLAIN
    allocator: str = DEFAULT
    """Allocator of clients and workers; the default is that of jobs: see `planes/malloc.py`."""
    workers: int = 1
    ranks: int = 1
    """Number of clients that share one job, first come, first served."""

    def __post_init__(self) -> None:
        for kind, name, known in (("dtype", self.dtype, DTYPES), ("compression", self.compression, COMPRESSIONS)):
            if name not in known:
                unknown(kind, name, known)
        if not 8 <= self.bytes <= MOST_BYTES:
            raise UsageError(f"size {self.size}: give at most {MOST_BYTES // 1_000_000} MB")
        if not (1 <= self.workers <= MOST_PROCESSES and 1 <= self.ranks <= MOST_PROCESSES):
            raise UsageError(f"{self.workers} workers, {self.ranks} ranks: give 1 to {MOST_PROCESSES}")

    @property
    def bytes(self) -> int:
        """Bytes of one batch: 150000 for `150kB`. Raises UsageError for anything but whole kB or MB."""
        found = re.fullmatch(r"([1-9][0-9]*)(kB|MB)", self.size)
        if found is None:
            raise UsageError(f"size {self.size!r}: give a whole number of kB or MB, such as 150kB or 19MB")
        return int(found[1]) * {"kB": KB, "MB": MB}[found[2]]

    @property
    def key(self) -> str:
        """Its part of a figure's name, without defaults: `uint8.19MB.none.workers_2`."""
        parts = [self.dtype, self.size, self.compression]
        parts += [self.allocator] if self.allocator != DEFAULT else []
        parts += [f"workers_{self.workers}"] if self.workers != 1 else []
        parts += [f"ranks_{self.ranks}"] if self.ranks != 1 else []
        return ".".join(parts)

    @property
    def plain(self) -> Load:
        """The same batches uncompressed, with the default allocator, from one worker to one rank."""
        return Load(self.dtype, self.size)


SIZES = ("150kB", "1600kB", "19MB", "77MB")
"""One image of 224x224; batches of 512 of 32x32, and of 128 and 512 of 224x224, as uint8."""
SELECTION = (
    *(Load(dtype, size) for size in SIZES for dtype in DTYPES),
    *(Load(dtype, size, SNAPPY) for size in SIZES[:3] for dtype in DTYPES),
    *(Load("uint8", "19MB", workers=workers) for workers in (2, 4)),
    *(Load("uint8", "19MB", workers=workers, ranks=2) for workers in (1, 2)),
)
"""The loads measured by default: one thing changed at a time. To compress 77 MB would take longer than all the rest."""


def combined(
    dtypes: Sequence[str],
    sizes: Sequence[str],
    compressions: Sequence[str],
    workers: Sequence[int],
    ranks: Sequence[int],
    allocators: Sequence[str] = (DEFAULT,),
) -> tuple[Load, ...]:
    """Returns all combinations. Raises UsageError for values that are unknown or out of range."""
    every = itertools.product(sizes, dtypes, compressions, allocators, workers, ranks)
    return tuple(dict.fromkeys(Load(dtype, size, *rest) for size, dtype, *rest in every))  # type: ignore[arg-type]
