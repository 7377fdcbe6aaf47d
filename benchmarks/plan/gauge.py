"""The process that measures what batches cost outside any job: started once, asked again and again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from benchmarks.cluster_runs.limited_child import LimitedChild
from benchmarks.plan.case import PlanCase, PlanLoad
from benchmarks.plan.cut_costs import LOCAL, PARTS, REMOTE, WIRE
from tfhet.container import Limits
from tfhet.planes.cpus import usable

COSTS_LIMIT_S = 300.0
COSTS_CPUS = 0.5
"""CPUs while costs are measured for which no host is known yet."""


class Gauge(Protocol):
    """Measures what batches cost outside any job."""

    def costs(
        self,
        load: PlanLoad,
        channel: Path,
        positions: Sequence[int] | None = None,
        parts: Sequence[str] = PARTS,
        cpus: float = COSTS_CPUS,
    ) -> Mapping[str, Any]:
        """See `cut_costs.costs`; cpus: while they are measured. Raises TfhetError where it fails or takes too long."""


class ChildGauge:
    """A gauge that asks the process `cut_costs`."""

    def __init__(self, child: LimitedChild):
        self._child = child

    def costs(
        self,
        load: PlanLoad,
        channel: Path,
        positions: Sequence[int] | None = None,
        parts: Sequence[str] = PARTS,
        cpus: float = COSTS_CPUS,
    ) -> Mapping[str, Any]:
        batches = {"chain": load.chain, "batch_size": load.batch_size, "channel": str(channel)}
        return self._child.ask({**batches, "positions": positions, "parts": parts}, COSTS_LIMIT_S, Limits(cpus))


def case_costs(case: PlanCase, alone: Gauge, channel: Path) -> dict[str, Any]:
    """Costs of the batches of a case, each with the CPUs of the host that pays it, as if it was profiled there: the fewer
    a host has, the later it needs the same memory again, and the more of the caches others have used meanwhile. Raises
    TfhetError."""
    if case.is_alone:
        return dict(alone.costs(case.load, channel, (), cpus=case.dnn_cpus))
    before = alone.costs(case.load, channel, (case.position,), (REMOTE,), case.data_cpus)
    after = alone.costs(case.load, channel, (case.position,), (LOCAL, WIRE), case.dnn_cpus)
    return {**before, "cuts": [{**one, **two} for one, two in zip(before["cuts"], after["cuts"], strict=True)]}


@contextmanager
def gauge() -> Iterator[ChildGauge]:
    """The process, which ends with the context."""
    with LimitedChild.started("benchmarks.plan.cut_costs", str(max(usable() or (0,)))) as child:
        yield ChildGauge(child)
