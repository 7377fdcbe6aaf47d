"""Cost of moving batches by what is no tf.data service: assumed, or read from a record of
`python -m benchmarks.transport`."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tfhet.errors import UsageError
from tfhet.planes.costs import PlaneCosts, WireCost
from tfhet.record import Interval, Record
from tfhet.units import KB, MB

SIZES = {"150kB": 150 * KB, "1600kB": 1600 * KB, "19MB": 19 * MB, "77MB": 77 * MB}
"""Bytes of a batch, by the names of them in figures."""
READER, SERVER, RATE = "client_cpu_s_per_gb", "worker_cpu_s_per_gb", "gb_per_s"


@dataclass(frozen=True)
class Carrier:
    """The carrier of batches of a plane whose hosts count as one server each, which uses all of its CPUs."""

    name: str
    """Its name in the record's figures."""
    words: str
    """How messages call it, like `a feed`."""
    known: Mapping[str, tuple[Interval, Interval]]
    """CPU seconds per GB of the reader and of the server, by the size of a batch: those of `results/transport.json`;
    the ends reach over its intervals and those of `transport-other-machine.json` (loopback between two cores of an
    Intel Xeon and of an AMD EPYC, Python 3.11)."""

    @functools.cached_property
    def assumed(self) -> PlaneCosts:
        """The costs where no record is given."""
        rows = [(SIZES[size], *costs, WireCost.one_in_flight(*costs).gb_per_s) for size, costs in self.known.items()]
        return self._costs(rows, "assumed: Python 3.11 on loopback, one machine")

    def costs(self, record: Record | None) -> PlaneCosts:
        """The costs in a record; between two sizes they are linear in the logarithm of the size, and beyond them those
        of the nearest. None: `assumed`. Raises UsageError for a record without figures of the carrier."""
        if record is None:
            return self.assumed
        rows = []
        for size, size_bytes in SIZES.items():
            figures = [record.figures.get(f"transport.{self.name}.{size}.{what}") for what in (READER, SERVER, RATE)]
            if all(figure is not None for figure in figures):
                rows.append((size_bytes, *(Interval.of(figure) for figure in figures if figure is not None)))
        if not rows:
            raise UsageError(
                f"the record {record.name!r} has no figures of {self.words}; make one with: "
                "python -m benchmarks.transport"
            )
        return self._costs(rows, f"{record.name}, measured {record.created}")  # type: ignore[arg-type]

    def _costs(self, measured: Sequence[tuple[int, Interval, Interval, Interval]], source: str) -> PlaneCosts:
        """measured: bytes of a batch, ascending; CPU seconds per GB of reader and server; GB/s."""

        @functools.cache
        def wire(dtype: str, batch_bytes: int, compression: str) -> WireCost:
            check(self.words, batch_bytes, compression)
            import numpy as np  # a launcher, which loads this module, does without

            sizes = np.log([size for size, *_ in measured])
            found = []
            for column in (1, 2, 3):
                every = [[getattr(row[column], end) for row in measured] for end in ("value", "low", "high")]
                found.append(Interval(*(float(np.interp(np.log(batch_bytes), sizes, values)) for values in every)))
            return WireCost(*found)

        return PlaneCosts(wire, ("none",), source, request_s=Interval(0.0005, 0.0001, 0.001), most_servers_per_host=1)


def check(words: str, batch_bytes: int, compression: str) -> None:
    """Raises UsageError for batches without bytes, and for a compression, which no such carrier has."""
    if compression != "none":
        raise UsageError(f"{words} does not compress, and compression {compression!r} was asked for")
    if not batch_bytes > 0:
        raise UsageError(f"batches of {batch_bytes} bytes: give more than 0")


FEED = Carrier(
    "feed",
    "a feed",
    {
        "150kB": (Interval(0.497, 0.335, 0.542), Interval(0.789, 0.561, 0.92)),
        "1600kB": (Interval(0.214, 0.171, 0.218), Interval(0.308, 0.224, 0.325)),
        "19MB": (Interval(0.206, 0.147, 0.216), Interval(0.283, 0.209, 0.287)),
        "77MB": (Interval(0.214, 0.133, 0.225), Interval(0.308, 0.217, 0.528)),
    },
)
RAY = Carrier(
    "ray",
    "Ray Data",
    {
        "150kB": (Interval(166, 105, 173), Interval(149, 81.1, 163)),
        "1600kB": (Interval(15, 8.62, 16.3), Interval(13.5, 7.26, 15)),
        "19MB": (Interval(1.02, 0.897, 1.09), Interval(1.09, 0.753, 1.11)),
        "77MB": (Interval(0.278, 0.229, 0.328), Interval(0.451, 0.267, 0.519)),
    },
)
"""Ray's own processes count as its server."""
