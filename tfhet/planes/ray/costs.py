"""Cost of moving batches by Ray in a job of ranks that Ray did not start, from four records of `benchmarks.planes`.

Ray takes CPU all the time, for its processes and for scheduling; for each batch; and for each byte. A record of batches
of several sizes tells them apart: CPU seconds of a host = CPUs x seconds + s x batches + s/GB x GB. What a GB takes a
reader is less than such a record could tell: it is that of the largest batches of `results/transport.json`.

The values are those of `results/planes-other-day.json`. The rounds of a record are closer to each other than records
are, so the intervals reach from the least to the greatest of its rounds and those of `planes`, `planes-other-machine`
and `planes-one-run`.
"""

from __future__ import annotations

import functools
from dataclasses import replace

from tfhet.planes import carrier
from tfhet.planes.costs import PlaneCosts, WireCost
from tfhet.record import Interval, Record

READER_BATCH_S, READER_S_PER_GB = Interval(0.00279, 0.00207, 0.00409), Interval(0.278, 0.229, 0.328)
SERVER_BATCH_S, SERVER_S_PER_GB = Interval(0.000173, 0.0, 0.00136), Interval(2.31, 0.325, 2.8)
LEADER_CPUS, HOST_CPUS = Interval(0.282, 0.126, 0.39), Interval(0.0866, 0.0, 0.18)
"""CPUs that are taken all the time: by the head, the rank's scheduling and a node, and by a node."""
SOURCE = "assumed: as Ray took it in four records of benchmarks.planes, in blocks of some MB"


@functools.cache
def _wire(dtype: str, batch_bytes: int, compression: str) -> WireCost:
    carrier.check(carrier.RAY.words, batch_bytes, compression)
    reader, server = (
        Interval(*(getattr(batch_s, end) * 1e9 / batch_bytes + getattr(s_per_gb, end) for end in _ENDS))
        for batch_s, s_per_gb in ((READER_BATCH_S, READER_S_PER_GB), (SERVER_BATCH_S, SERVER_S_PER_GB))
    )
    # Tasks run ahead on all CPUs: the thread that fetches blocks does one at a time.
    return WireCost(reader, server, Interval(1 / reader.value, 1 / reader.high, 1 / reader.low))


_ENDS = "value", "low", "high"
ASSUMED = PlaneCosts(
    _wire,
    source=SOURCE,
    request_s=Interval(0.0005, 0.0001, 0.001),
    most_servers_per_host=1,
    leader_cpus=LEADER_CPUS,
    host_cpus=HOST_CPUS,
    is_needed=True,
    uses_all_hosts=False,
)


def costs(record: Record | None) -> PlaneCosts:
    """The costs that are assumed; or those of a batch and a byte in a record of `benchmarks.transport`, of which each
    block is a batch, and which count all that Ray's own processes took. Raises UsageError for other records."""
    if record is None:
        return ASSUMED
    found = carrier.RAY.costs(record)
    none = Interval.exact(0.0)
    return replace(ASSUMED, wire=found.wire, source=found.source, leader_cpus=none, host_cpus=none)
