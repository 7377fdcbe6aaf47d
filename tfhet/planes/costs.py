"""What it costs to move a batch from a worker to a rank."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

from tfhet.errors import UsageError, unknown
from tfhet.plan.interval import Interval
from tfhet.record import Record
from tfhet.record.wire_cost import row, rows, wire_cost

DTYPES = ("uint8", "float32")
"""That are measured; any other counts as the last."""
REQUEST_S = Interval(0.0005, 0.0001, 0.001)
"""Assumed: a request for a batch and its answer between hosts of one network, without the batch."""


@dataclass(frozen=True)
class Stream:
    """One rank that reads from one worker. A GB is 1e9 bytes of tensors, before compression."""

    client_s_per_gb: Interval
    """CPU seconds of the rank."""
    worker_s_per_gb: Interval
    """CPU seconds of the worker."""
    gb_per_s: Interval
    """Batch after batch, one in flight."""
    wire_ratio: Interval = Interval.exact(1.0)
    """Bytes that travel for each byte of tensors."""

    @classmethod
    def one_in_flight(cls, client: Interval, worker: Interval) -> Stream:
        """Of CPU seconds a GB: the worker writes, then the rank reads."""
        rate = Interval(*(1 / (getattr(client, end) + getattr(worker, end)) for end in ("value", "high", "low")))
        return cls(client, worker, rate)


@dataclass(frozen=True)
class Wire:
    """Streams by what travels."""

    stream: Callable[[str, int, str], Stream]
    """(dtype, bytes of a batch, compression) -> the stream; raises UsageError for what is not known."""
    compressions: tuple[str, ...]
    """That a plan may choose from."""
    known_from: str
    """In words: the record, or that it is assumed."""
    request_s: Interval = REQUEST_S


_ASSUMED = {
    ("uint8", "none"): Stream.one_in_flight(Interval(0.73, 0.73, 2.1), Interval(0.73, 0.72, 1.1)),
    ("float32", "none"): Stream.one_in_flight(Interval(0.86, 0.84, 2.6), Interval(0.80, 0.72, 1.4)),
    ("float32", "snappy"): Stream.one_in_flight(Interval(8.3, 8.3, 8.3), Interval(4.1, 4.1, 4.1)),
}
"""By dtype and compression, on loopback between two cores (Xeon at 2.5 GHz, TensorFlow 2.15.1), one run each. Values:
uint8 in batches of 19 MB, float32 in batches of 12.6 MB; ends: float32 of 77 MB with two allocators, 150 kB images."""


def _assumed(dtype: str, batch_bytes: int, compression: str) -> Stream:
    found = _ASSUMED.get((dtype if dtype == "uint8" else "float32", compression))
    if found is None:
        raise UsageError(f"the wire's cost of {dtype} with {compression} is not known: measure it, or leave it out")
    return found


ASSUMED_WIRE = Wire(_assumed, ("none",), "assumed: TensorFlow 2.15.1 on loopback, one run")
"""Until `tfhet bench transport` has measured it. Without compression: what it saves depends on the data."""


def wire_of(record: Record) -> Wire:
    """What a record of `tfhet bench transport` says; a dtype that it leaves out costs as one that it has. Raises
    UsageError for another record."""
    measured: dict[str, list[str]] = {}
    for moved in rows(record):
        if moved == row(moved["dtype"], moved["size"], moved["compression"]):
            measured.setdefault(moved["compression"], []).append(moved["dtype"])
    if not measured:
        raise UsageError(
            f"the record {record.name!r} holds no transfer with the default allocator, one worker and one rank; wanted "
            "one of `tfhet bench transport` that does"
        )

    @functools.cache
    def stream(dtype: str, batch_bytes: int, compression: str) -> Stream:
        wanted = dtype if dtype in DTYPES else DTYPES[-1]
        known = measured.get(compression) or unknown("compression", compression, measured)
        found = wire_cost(record, wanted if wanted in known else known[0], batch_bytes, compression)
        parts = (found.client_cpu_s_per_gb, found.worker_cpu_s_per_gb, found.gb_per_s, found.wire_ratio)
        return Stream(*(Interval.of(part) for part in parts))

    return Wire(stream, tuple(measured), f"{record.name}, measured {record.created}")
