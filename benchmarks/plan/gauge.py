"""The process that measures what batches cost outside any job: started once, asked again and again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
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
    """A gauge that asks the process `cut_costs`."""

    def __init__(self, child: LimitedChild):
        self._child = child

    def costs(
        self, load: PlanLoad, channel: Path, positions: Sequence[int] | None = None, cpus: float = COSTS_CPUS
    ) -> Mapping[str, Any]:
        batches = {"chain": load.chain, "batch_size": load.batch_size, "channel": str(channel)}
        asked = {**batches, "positions": positions}
        return self._child.ask(asked, COSTS_LIMIT_S, Limits(cpus))


@contextmanager
def gauge() -> Iterator[ChildGauge]:
    """The process, which ends with the context."""
    with LimitedChild.started("benchmarks.plan.cut_costs", str(max(usable() or (0,)))) as child:
        yield ChildGauge(child)
