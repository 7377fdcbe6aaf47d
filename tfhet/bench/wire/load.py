"""A load: what is moved over tf.data service, and between how many processes."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from tfhet.errors import UsageError, unknown
from tfhet.planes.tf_service import DEFAULT, DTYPES, PLAIN, Moved

SNAPPY = "snappy"
COMPRESSIONS = (PLAIN, SNAPPY)
MOST_BYTES = 1_000_000_000
"""Maximum size of a batch: a protobuf message ends at 2 GiB, and a worker holds at least two batches."""
MOST_PROCESSES = 64


@dataclass(frozen=True)
class Load(Moved):
    """Batches of one tensor each, and the processes between which they move. Raises UsageError for wrong values."""

    def __post_init__(self) -> None:
        for kind, name, known in (("dtype", self.dtype, DTYPES), ("compression", self.compression, COMPRESSIONS)):
            if name not in known:
                unknown(kind, name, known)
        if not 8 <= self.bytes <= MOST_BYTES:
            raise UsageError(f"size {self.size}: give at most {MOST_BYTES // 1_000_000} MB")
        if not (1 <= self.workers <= MOST_PROCESSES and 1 <= self.ranks <= MOST_PROCESSES):
            raise UsageError(f"{self.workers} workers, {self.ranks} ranks: give 1 to {MOST_PROCESSES}")

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
