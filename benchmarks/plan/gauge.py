"""The processes that measure what batches cost outside any job: each a new one, as the processes of a job are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from benchmarks.cluster_runs.limited_child import LimitedChild
from benchmarks.plan.case import PlanLoad
from tfhet.container import Limits
from tfhet.planes.cpus import usable

COSTS_LIMIT_S = 300.0
COSTS_CPUS = 0.5
"""CPUs while costs are measured of which no case is known yet."""


class Gauge(Protocol):
    """Measures what batches cost outside any job."""

    def costs(
        self, load: PlanLoad, channel: Path, positions: Sequence[int] | None = None, cpus: float = COSTS_CPUS
    ) -> Mapping[str, Any]:
        """See `cut_costs.costs`; cpus: while they are measured. Raises TfhetError where it fails or takes too long."""


class ChildGauge:
    """A gauge that starts the process `cut_costs` for each measurement. One that has made other batches before may make
    these with less CPU than a job does: what its allocator holds is in its page tables already."""

    def costs(
        self, load: PlanLoad, channel: Path, positions: Sequence[int] | None = None, cpus: float = COSTS_CPUS
    ) -> Mapping[str, Any]:
        batches = {"chain": load.chain, "batch_size": load.batch_size, "channel": str(channel)}
        with LimitedChild.started("benchmarks.plan.cut_costs", str(max(usable() or (0,)))) as child:
            return child.ask({**batches, "positions": positions}, COSTS_LIMIT_S, Limits(cpus))
