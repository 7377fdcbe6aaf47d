"""The process that measures what batches cost apart, from the outside: started once, asked again and again."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from benchmarks.cluster_runs.kept_process import Apart
from benchmarks.plan.case import PlanLoad
from benchmarks.plan.yardstick import Pace
from tfhet.container.limits import Limits
from tfhet.service.cpus import usable

COSTS_LIMIT_S = 300.0
COSTS_CPUS = 0.5
"""About what hosts have while costs are measured: stopping and going on costs a few per cent."""


class Gauge(Protocol):
    """What the suite asks."""

    def costs(self, load: PlanLoad, channel: Path) -> Mapping[str, Any]:
        """See `plan_alone.costs`."""


class ApartGauge:
    """`plan_alone`. Raises TfhetError where it fails or takes too long."""

    def __init__(self, apart: Apart):
        self._apart = apart

    def costs(self, load: PlanLoad, channel: Path) -> Mapping[str, Any]:
        asked = {"chain": load.chain, "batch_size": load.batch_size, "channel": str(channel)}
        found: Mapping[str, Any] = json.loads(self._apart.ask(COSTS_LIMIT_S, Limits(COSTS_CPUS), json.dumps(asked)))
        return found


@contextmanager
def gauge() -> Iterator[ApartGauge]:
    """The process, which ends with the context."""
    with Apart.kept("benchmarks.plan.cut_costs", str(max(usable() or (0,)))) as apart:
        yield ApartGauge(apart)


def batches_s(said: Mapping[str, Any], pace: Pace) -> list[float]:
    """What a batch of the yardstick cost during each round."""
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
