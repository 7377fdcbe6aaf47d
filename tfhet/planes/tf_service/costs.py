"""Cost of moving batches over tf.data service: assumed, or read from a record of `tfhet bench transport`.

measured_costs(Record.read("transport.json")).wire("uint8", 19_000_000, "none").reader_s_per_gb
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, replace

from tfhet.errors import UsageError, check_known
from tfhet.planes.costs import PlaneCosts, WireCost
from tfhet.record import Interval, Record
from tfhet.units import KB, MB

PREFIX = "transport"
"""First part of the figures' names."""
CLIENT, WORKER, RATE, RATIO = "client_cpu_s_per_gb", "worker_cpu_s_per_gb", "gb_per_s", "wire_ratio"
PLAIN = "none"
"""Name of no compression."""
DEFAULT = "default"
"""Name of the C library's allocator, which jobs have unless another one is preloaded."""
DTYPES = ("uint8", "float32")
"""Dtypes that are measured; any other dtype costs as the last."""


@dataclass(frozen=True)
class Moved:
    """Batches, and the processes between which they move: a row `moved` of the record."""

    dtype: str
    """uint8 or float32."""
    size: str
    """Bytes of a batch, as figures name it: whole kB or MB."""
    compression: str = PLAIN
    """none or snappy."""
    allocator: str = DEFAULT
    """Allocator of clients and workers; the default is that of jobs: see `planes/malloc.py`."""
    workers: int = 1
    ranks: int = 1
    """Number of clients that share one job, first come, first served."""

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


_ASSUMED_WIRE = {
    ("uint8", PLAIN): WireCost.one_in_flight(Interval(0.30, 0.16, 1.37), Interval(0.22, 0.16, 0.511)),
    ("float32", PLAIN): WireCost.one_in_flight(Interval(0.25, 0.161, 1.15), Interval(0.20, 0.156, 0.475)),
    ("float32", "snappy"): WireCost.one_in_flight(Interval(5.0, 2.2, 5.87), Interval(2.8, 1.74, 3.96)),
}
"""Costs by dtype and compression, of batches of 19 MB: those of `results/transport-other-day.json`. The ends are the
least and the most of 150 kB to 77 MB there, in `transport.json` and in `transport-other-machine.json` (loopback between
two cores of two AMD EPYCs and an Intel Xeon, TensorFlow 2.15.1)."""


def _assumed_wire(dtype: str, batch_bytes: int, compression: str) -> WireCost:
    found = _ASSUMED_WIRE.get((dtype if dtype == "uint8" else "float32", compression))
    if found is None:
        raise UsageError(f"the cost of moving {dtype} with compression {compression} is not known: measure it first")
    return found


ASSUMED = PlaneCosts(
    _assumed_wire,
    (PLAIN,),  # what a compression saves depends on the data
    "assumed: TensorFlow 2.15.1 on loopback, one machine",
    request_s=Interval(0.0005, 0.0001, 0.001),  # assumed
    most_servers_per_host=8,
)
"""Costs until `tfhet bench transport` has measured them. More than 8 workers on a host were never seen to help."""


def measured_costs(record: Record) -> PlaneCosts:
    """Returns the costs in a record of `tfhet bench transport`, with the default allocator, one worker and one rank. A
    dtype that the record lacks costs as one that it has. Between two measured sizes a cost is linear in the logarithm
    of the size, value and ends alike; beyond them it is that of the nearest size. Raises UsageError for another
    record."""
    try:
        rows = [Moved(**row) for row in record.details.get("moved", ())]
    except TypeError as error:
        raise UsageError(f"the record {record.name!r} has rows in `moved` that cannot be read: {error}") from None
    measured = [one for one in rows if one == Moved(one.dtype, one.size, one.compression)]
    compressions = tuple(dict.fromkeys(one.compression for one in measured))
    if not measured:
        raise UsageError(
            f"the record {record.name!r} holds no transfer with the default allocator, one worker and one rank; give a "
            "record of `tfhet bench transport` that does"
        )

    @functools.cache
    def wire(dtype: str, batch_bytes: int, compression: str) -> WireCost:
        if not batch_bytes > 0:
            raise UsageError(f"batches of {batch_bytes} bytes: give more than 0")
        check_known("compression", compression, compressions)
        wanted = dtype if dtype in DTYPES else DTYPES[-1]
        known = [one for one in measured if one.compression == compression]
        alike = [one for one in known if one.dtype == wanted] or [one for one in known if one.dtype == known[0].dtype]
        alike.sort(key=lambda one: one.bytes)

        def at(what: str) -> Interval:
            import numpy as np  # a launcher, which loads this module, does without

            names = [f"{PREFIX}.{one.key}.{what}" for one in alike]
            if missing := [name for name in names if name not in record.figures]:
                raise UsageError(f"the record {record.name!r} has no figure {missing[0]}")
            found = [Interval.of(record.figures[name]) for name in names]
            where = np.log(batch_bytes), np.log([one.bytes for one in alike])
            ends = ([getattr(one, end) for one in found] for end in ("value", "low", "high"))
            return Interval(*(float(np.interp(*where, values)) for values in ends))

        return WireCost(at(CLIENT), at(WORKER), at(RATE), Interval.exact(1.0) if compression == PLAIN else at(RATIO))

    return replace(ASSUMED, wire=wire, compressions=compressions, source=f"{record.name}, measured {record.created}")
