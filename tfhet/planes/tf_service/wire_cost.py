"""What moving batches over tf.data service costs, read from a record of `tfhet bench transport`."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

from tfhet.errors import UsageError
from tfhet.record.figure import Figure
from tfhet.record.record import Record
from tfhet.units import KB, MB

PREFIX = "transport"
"""Of the names of its figures."""
CLIENT, WORKER, RATE = "client_cpu_s_per_gb", "worker_cpu_s_per_gb", "gb_per_s"
RATIO = "wire_ratio"
PLAIN = "none"
"""The compression that is none."""
DEFAULT = "default"
"""The allocator that jobs have unless another one is preloaded: the C library's."""
_SIZE = re.compile(r"([1-9][0-9]*)(kB|MB)")
_UNIT_BYTES = {"kB": KB, "MB": MB}


@dataclass(frozen=True)
class WireCost:
    """Per GB (1e9 bytes) of tensors, before any compression; all clients together, all workers together."""

    client_cpu_s_per_gb: Figure
    """CPU of the processes that read."""
    worker_cpu_s_per_gb: Figure
    """CPU of the workers; that of making the batches is not in it."""
    gb_per_s: Figure
    """What all clients received together, on a machine that did nothing else and ran both sides."""
    wire_ratio: Figure
    """Bytes on the wire over bytes of tensors: 1 without compression."""


def wire_cost(
    record: Record,
    dtype: str,
    batch_bytes: float,
    compression: str = PLAIN,
    *,
    allocator: str = DEFAULT,
    workers: int = 1,
    ranks: int = 1,
) -> WireCost:
    """The cost of batches of `batch_bytes`: between the two measured sizes around it, straight over the logarithm of
    the size; that of the nearest one beyond them.

    An end of an interval is found as its value is; a figure between two sizes has no samples. Raises UsageError when
    nothing like it was measured, naming what was, or for a size that is not positive.
    """
    if not batch_bytes > 0:
        raise UsageError(f"batches of {batch_bytes} bytes: give more than 0")
    wanted = row(dtype, "", compression, allocator=allocator, workers=workers, ranks=ranks)
    by_bytes: dict[int, str] = {}
    known: set[str] = set()
    for moved in rows(record):
        known.add(key(**moved))
        if {**moved, "size": ""} == wanted:
            by_bytes[bytes_of(moved["size"])] = key(**moved)
    if not by_bytes:
        asked = key(**{**wanted, "size": "SIZE"})
        has = f"it has {', '.join(sorted(known))}" if known else "is it one of `tfhet bench transport`?"
        raise UsageError(f"the record {record.name!r} holds nothing for {asked}; {has}")

    def at(what: str) -> Figure:
        found = {size: record.figures.get(f"{PREFIX}.{stem}.{what}") for size, stem in by_bytes.items()}
        if what == RATIO and compression == PLAIN:
            return Figure.single(1.0, unit="x")
        missing = [by_bytes[size] for size, figure in found.items() if figure is None]
        if missing:
            raise UsageError(f"the record {record.name!r} has no figure {PREFIX}.{missing[0]}.{what}")
        return _between({size: figure for size, figure in found.items() if figure is not None}, batch_bytes)

    return WireCost(at(CLIENT), at(WORKER), at(RATE), at(RATIO))


def rows(record: Record) -> list[dict[str, Any]]:
    """What was moved, a row for each way that was measured: the arguments of `key`. No rows for another record. Raises
    UsageError for rows with other fields."""
    try:
        return [row(**moved) for moved in record.details.get("moved", ())]
    except TypeError as error:
        raise UsageError(f"the record {record.name!r} has rows in `moved` that cannot be read: {error}") from None


def row(
    dtype: str, size: str, compression: str, *, allocator: str = DEFAULT, workers: int = 1, ranks: int = 1
) -> dict[str, Any]:
    """A row of the record's `moved`."""
    return {
        "dtype": dtype,
        "size": size,
        "compression": compression,
        "allocator": allocator,
        "workers": workers,
        "ranks": ranks,
    }


def key(dtype: str, size: str, compression: str, *, allocator: str = DEFAULT, workers: int = 1, ranks: int = 1) -> str:
    """The part of a figure's name that says what was moved: `uint8.19MB.none.workers_2`. What is plain is left out."""
    parts = [dtype, size, compression]
    if allocator != DEFAULT:
        parts.append(allocator)
    if workers != 1:
        parts.append(f"workers_{workers}")
    if ranks != 1:
        parts.append(f"ranks_{ranks}")
    return ".".join(parts)


def bytes_of(size: str) -> int:
    """`150kB` -> 150000, `19MB` -> 19000000. Raises UsageError for anything but whole kB or MB."""
    found = _SIZE.fullmatch(size)
    if found is None:
        raise UsageError(f"size {size!r}: give a whole number of kB or MB, such as 150kB or 19MB")
    return int(found[1]) * _UNIT_BYTES[found[2]]


def _between(figures: dict[int, Figure], size: float) -> Figure:
    below = max((known for known in figures if known <= size), default=min(figures))
    above = min((known for known in figures if known >= size), default=max(figures))
    first, second = figures[below], figures[above]
    if below == above:
        return first
    share = math.log(size / below) / math.log(above / below)

    def mixed(one: float, other: float) -> float:
        return one + share * (other - one)

    value, low, high = (mixed(getattr(first, end), getattr(second, end)) for end in ("value", "low", "high"))
    return Figure(value, low, high, first.unit, min(first.n, second.n), first.against)
