"""Cost of moving batches over tf.data service: assumed, or read from a record of `tfhet bench transport`.

measured_costs(Record.read("transport.json")).wire("uint8", 19_000_000, "none").reader_s_per_gb
wire_cost(record, "uint8", 3_000_000, workers=4).gb_per_s         # between the two sizes that were measured
"""

from __future__ import annotations

import functools
import math
import re
from typing import Any

from tfhet.errors import UsageError, unknown
from tfhet.planes.costs import PlaneCosts, WireCost
from tfhet.record import Interval, Record
from tfhet.units import KB, MB

PREFIX = "transport"
"""First part of the figures' names."""
CLIENT, WORKER, RATE = "client_cpu_s_per_gb", "worker_cpu_s_per_gb", "gb_per_s"
RATIO = "wire_ratio"
PLAIN = "none"
"""Name of no compression."""
DEFAULT = "default"
"""Name of the C library's allocator, which jobs have unless another one is preloaded."""
DTYPES = ("uint8", "float32")
"""Dtypes that are measured; any other dtype counts as the last."""
_SIZE = re.compile(r"([1-9][0-9]*)(kB|MB)")
_UNIT_BYTES = {"kB": KB, "MB": MB}

_ASSUMED = {
    ("uint8", PLAIN): WireCost.one_in_flight(Interval(0.73, 0.73, 2.1), Interval(0.73, 0.72, 1.1)),
    ("float32", PLAIN): WireCost.one_in_flight(Interval(0.86, 0.84, 2.6), Interval(0.80, 0.72, 1.4)),
    ("float32", "snappy"): WireCost.one_in_flight(Interval(8.3, 8.3, 8.3), Interval(4.1, 4.1, 4.1)),
}
"""Costs by dtype and compression, on loopback between two cores (Xeon at 2.5 GHz, TensorFlow 2.15.1), one run each.
Values: uint8 in batches of 19 MB, float32 in batches of 12.6 MB. Ends: float32 of 77 MB with two allocators, images of
150 kB."""


def _assumed(dtype: str, batch_bytes: int, compression: str) -> WireCost:
    found = _ASSUMED.get((dtype if dtype == "uint8" else "float32", compression))
    if found is None:
        raise UsageError(f"the cost of moving {dtype} with compression {compression} is not known: measure it first")
    return found


COSTS = PlaneCosts(
    _assumed,
    (PLAIN,),  # what a compression saves depends on the data
    "assumed: TensorFlow 2.15.1 on loopback, one run",
    request_s=Interval(0.0005, 0.0001, 0.001),
    split_s=Interval(0.0002, 0.0001, 0.0005),
    most_servers_per_host=8,
)
"""Costs until `tfhet bench transport` has measured them. Seconds of requests and of splits are assumed. More than 8
workers on a host were never seen to help."""


def measured_costs(record: Record) -> PlaneCosts:
    """Returns the costs in a record of `tfhet bench transport`. A dtype that the record lacks costs as one that it has.

    Raises UsageError for another record.
    """
    measured: dict[str, list[str]] = {}
    for moved in rows(record):
        if moved == row(moved["dtype"], moved["size"], moved["compression"]):
            measured.setdefault(moved["compression"], []).append(moved["dtype"])
    if not measured:
        raise UsageError(
            f"the record {record.name!r} holds no transfer with the default allocator, one worker and one rank; give a "
            "record of `tfhet bench transport` that does"
        )

    @functools.cache
    def wire(dtype: str, batch_bytes: int, compression: str) -> WireCost:
        wanted = dtype if dtype in DTYPES else DTYPES[-1]
        known = measured.get(compression) or unknown("compression", compression, measured)
        return wire_cost(record, wanted if wanted in known else known[0], batch_bytes, compression)

    return PlaneCosts(
        wire,
        tuple(measured),
        f"{record.name}, measured {record.created}",
        COSTS.request_s,
        COSTS.split_s,
        COSTS.most_servers_per_host,
    )


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
    """Returns the cost of batches of `batch_bytes`, of all ranks together and of all workers together.

    Between two measured sizes the cost is linear in the logarithm of the size, value and ends alike; beyond them it is
    that of the nearest size. Raises UsageError when nothing like it was measured, naming what was, or for a size that
    is not positive.
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

    def at(what: str) -> Interval:
        names = {size: f"{PREFIX}.{stem}.{what}" for size, stem in by_bytes.items()}
        missing = [name for name in names.values() if name not in record.figures]
        if missing:
            raise UsageError(f"the record {record.name!r} has no figure {missing[0]}")
        return _between({size: Interval.of(record.figures[name]) for size, name in names.items()}, batch_bytes)

    return WireCost(at(CLIENT), at(WORKER), at(RATE), Interval.exact(1.0) if compression == PLAIN else at(RATIO))


def rows(record: Record) -> list[dict[str, Any]]:
    """Returns a row for each way of moving batches that was measured: the arguments of `key`. Another record has none.

    Raises UsageError for rows with other fields.
    """
    try:
        return [row(**moved) for moved in record.details.get("moved", ())]
    except TypeError as error:
        raise UsageError(f"the record {record.name!r} has rows in `moved` that cannot be read: {error}") from None


def row(
    dtype: str, size: str, compression: str, *, allocator: str = DEFAULT, workers: int = 1, ranks: int = 1
) -> dict[str, Any]:
    """Returns a row of the record's `moved`."""
    return {
        "dtype": dtype,
        "size": size,
        "compression": compression,
        "allocator": allocator,
        "workers": workers,
        "ranks": ranks,
    }


def key(dtype: str, size: str, compression: str, *, allocator: str = DEFAULT, workers: int = 1, ranks: int = 1) -> str:
    """Returns the part of a figure's name that says what was moved, without defaults: `uint8.19MB.none.workers_2`."""
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


def _between(costs: dict[int, Interval], size: float) -> Interval:
    below = max((known for known in costs if known <= size), default=min(costs))
    above = min((known for known in costs if known >= size), default=max(costs))
    first, second = costs[below], costs[above]
    if below == above:
        return first
    share = math.log(size / below) / math.log(above / below)

    def mixed(end: str) -> float:
        one, other = getattr(first, end), getattr(second, end)
        return float(one + share * (other - one))

    return Interval(mixed("value"), mixed("low"), mixed("high"))
