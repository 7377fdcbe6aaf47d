"""The result of a plan with one input moved."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tfhet.plan.candidate import Market, candidates, ranking
from tfhet.plan.host import ClusterShape
from tfhet.plan.workload import Workload
from tfhet.planes import WireCost

CHANGES_PCT = (-25, -10, 10, 25)
"""Percentages by which each input is moved."""


@dataclass(frozen=True)
class Change:
    """Result with one input moved."""

    what: str
    by_pct: int
    step_s: float
    """Seconds of a step on the cluster that was chosen, with its best layout then."""
    usd_per_million: float | None
    best: ClusterShape
    """The cluster that would be chosen then."""

    def to_json(self) -> dict[str, Any]:
        return {
            "input": self.what,
            "by_pct": self.by_pct,
            "step_ms": 1e3 * self.step_s,
            "usd_per_million_examples": self.usd_per_million,
            "best": str(self.best),
        }


def _wire(workload: Workload, factor: float) -> Workload:
    costs = workload.plane_costs

    def wire(dtype: str, batch_bytes: int, compression: str) -> WireCost:
        found = costs.wire(dtype, batch_bytes, compression)
        reader, server = (cpu.times(factor) for cpu in (found.reader_s_per_gb, found.server_s_per_gb))
        return WireCost(reader, server, found.gb_per_s.times(1 / factor), found.wire_ratio)

    return replace(workload, plane_costs=replace(costs, wire=wire))


MOVES: Mapping[str, Callable[[Workload, float], Workload]] = {
    "step of the accelerator": lambda workload, by: replace(workload, trainer=workload.trainer.step_times(by)),
    "CPU of the stages": lambda workload, by: replace(workload, pipeline=workload.pipeline.cpu_times(by)),
    "CPU of the wire": _wire,
    "bytes that travel": lambda workload, by: replace(workload, pipeline=workload.pipeline.bytes_times(by)),
}
"""Inputs of the workload that are moved, by name: a function of the workload and the factor of that input."""


def sensitivity(
    workload: Workload, chosen: ClusterShape, shortlist: Sequence[ClusterShape], market: Market
) -> list[Change]:
    """Returns the result of each input moved by each of CHANGES_PCT, the others as they are.

    Only clusters of the shortlist can be chosen then.
    """
    trainers = {cluster.dnn.name for cluster in shortlist}

    def change(what: str, pct: int, workload: Workload, market: Market, data_speed: float = 1.0) -> Change:
        (own,) = candidates(workload, [_with_speed(chosen, data_speed)], market)
        others = candidates(workload, [_with_speed(cluster, data_speed) for cluster in shortlist], market)
        usd = own.usd_per_million
        return Change(what, pct, own.prediction.step_s.value, usd.value if usd else None, ranking(others)[0].cluster)

    def dearer(factor: float) -> Market:
        def price(name: str) -> float | None:
            usd = market.price(name)
            return usd if usd is None or name in trainers else factor * usd

        return replace(market, price=price)

    factors = [(pct, 1 + pct / 100) for pct in CHANGES_PCT]
    found = [change(what, pct, move(workload, by), market) for what, move in MOVES.items() for pct, by in factors]
    if any(cluster.data for cluster in (chosen, *shortlist)):
        found += [change("CPUs of data hosts", pct, workload, market, data_speed=by) for pct, by in factors]
        found += [change("price of data hosts", pct, workload, dearer(by)) for pct, by in factors]
    return found


def _with_speed(cluster: ClusterShape, factor: float) -> ClusterShape:
    """The cluster with data hosts whose vCPUs are `factor` times as fast."""
    if cluster.data is None:
        return cluster
    return replace(cluster, data=replace(cluster.data, speed=cluster.data.speed.times(factor)))
