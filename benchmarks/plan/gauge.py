"""The process that measures what batches cost outside any job: started once, asked again and again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from benchmarks.cluster_runs.limited_child import LimitedChild
from benchmarks.plan.case import PlanLoad
from benchmarks.plan.yardstick import Pace
from tfhet.container import Limits
from tfhet.planes.cpus import usable

COSTS_LIMIT_S = 300.0
COSTS_CPUS = 0.5
"""About what hosts have while costs are measured: stopping and going on costs a few per cent."""


class Gauge(Protocol):
    """Measures what batches cost outside any job."""

    def costs(self, load: PlanLoad, channel: Path) -> Mapping[str, Any]:
        """See `cut_costs.costs`. Raises TfhetError where it fails or takes too long."""


class ChildGauge:
    """A gauge that asks the process `cut_costs`."""

    def __init__(self, child: LimitedChild):
        self._child = child

    def costs(self, load: PlanLoad, channel: Path) -> Mapping[str, Any]:
        asked = {"chain": load.chain, "batch_size": load.batch_size, "channel": str(channel)}
        return self._child.ask(asked, COSTS_LIMIT_S, Limits(COSTS_CPUS))


@contextmanager
def gauge() -> Iterator[ChildGauge]:
    """The process, which ends with the context."""
    with LimitedChild.started("benchmarks.plan.cut_costs", str(max(usable() or (0,)))) as child:
        yield ChildGauge(child)


def batches_s(said: Mapping[str, Any], pace: Pace) -> list[float]:
    """CPU seconds of a batch of the yardstick during each round."""
    rounds = [*said["whole_s"], *(one for cut in said["cuts"] for name in _COSTS for one in cut[name])]
    return [pace.batch_s(*one[-2:]) for one in rounds]


def at_speed(said: Mapping[str, Any], pace: Pace, batch_s: float) -> dict[str, Any]:
    """The costs, without the moments, as they are when a batch of the yardstick costs `batch_s`."""

    def costs(rounds: Sequence[Sequence[float]]) -> list[Any]:
        each = [[cost * batch_s / pace.batch_s(*one[-2:]) for cost in one[:-2]] for one in rounds]
        return [one[0] if len(one) == 1 else one for one in each]

    cuts = [{**cut, **{name: costs(cut[name]) for name in _COSTS}} for cut in said["cuts"]]
    return {"cuts": cuts, "whole_s": costs(said["whole_s"])}


_COSTS = ("remote_s", "local_s", "wire_s")
