"""A plan with one of its inputs moved."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tfhet.plan.host import ClusterShape
from tfhet.plan.money import Market
from tfhet.plan.search import ranking, rated
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


def _accelerator(workload: Workload, factor: float) -> Workload:
    return replace(workload, trainer=workload.trainer.step_times(factor))


def _stages(workload: Workload, factor: float) -> Workload:
    return replace(workload, pipeline=workload.pipeline.cpu_times(factor))


def _bytes(workload: Workload, factor: float) -> Workload:
    return replace(workload, pipeline=workload.pipeline.bytes_times(factor))


def _wire(workload: Workload, factor: float) -> Workload:
    costs = workload.plane_costs

    def wire(dtype: str, batch_bytes: int, compression: str) -> WireCost:
        found = costs.wire(dtype, batch_bytes, compression)
        reader, server = (cpu.times(factor) for cpu in (found.reader_s_per_gb, found.server_s_per_gb))
        return WireCost(reader, server, found.gb_per_s.times(1 / factor), found.wire_ratio)

    return replace(workload, plane_costs=replace(costs, wire=wire))


WORKLOADS: Mapping[str, Callable[[Workload, float], Workload]] = {
    "step of the accelerator": _accelerator,
    "CPU of the stages": _stages,
    "CPU of the wire": _wire,
    "bytes that travel": _bytes,
}
"""Inputs of the workload that are moved, by name: a function of the workload and the factor of that input."""


def sensitivity(
    workload: Workload, chosen: ClusterShape, shortlist: Sequence[ClusterShape], market: Market
) -> list[Change]:
    """Returns the result of each input moved by each of CHANGES_PCT, the others as they are.

    Only clusters of the shortlist can be chosen then.
    """
    found = []
    for pct in CHANGES_PCT:
        factor = 1 + pct / 100
        for what, moved in WORKLOADS.items():
            found.append(_change(what, pct, moved(workload, factor), chosen, shortlist, market))
        if chosen.data or any(cluster.data for cluster in shortlist):
            faster = [_with_speed(cluster, factor) for cluster in shortlist]
            found.append(_change("CPUs of data hosts", pct, workload, _with_speed(chosen, factor), faster, market))
            trainers = {cluster.dnn.name for cluster in shortlist}
            dearer = replace(market, price=_priced(market, trainers, factor))
            found.append(_change("price of data hosts", pct, workload, chosen, shortlist, dearer))
    order = list(dict.fromkeys(change.what for change in found))
    return sorted(found, key=lambda change: order.index(change.what))


def _priced(market: Market, trainers: set[str], factor: float) -> Callable[[str], float | None]:
    def price(name: str) -> float | None:
        usd = market.price(name)
        return usd if usd is None or name in trainers else factor * usd

    return price


def _with_speed(cluster: ClusterShape, factor: float) -> ClusterShape:
    if cluster.data is None:
        return cluster
    return replace(cluster, data=replace(cluster.data, speed=cluster.data.speed.times(factor)))


def _change(
    what: str, pct: int, workload: Workload, chosen: ClusterShape, shortlist: Sequence[ClusterShape], market: Market
) -> Change:
    own = rated(workload, [chosen], market)[0]
    best = ranking(rated(workload, shortlist, market))[0]
    examples = chosen.ranks * workload.trainer.batch_size
    step_s = own.s_per_million * examples / 1e6 / market.slowdown
    return Change(what, pct, step_s, own.usd_per_million, best.cluster)
