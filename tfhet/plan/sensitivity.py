"""What becomes of a plan when one of its inputs is another."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tfhet.plan.host import ClusterShape
from tfhet.plan.interval import Interval
from tfhet.plan.money import Market
from tfhet.plan.search import Rated, ranking, rated
from tfhet.plan.wire import Stream, Wire
from tfhet.plan.workload import Workload

CHANGES_PCT = (-25, -10, 10, 25)


@dataclass(frozen=True)
class Change:
    """One input, moved."""

    what: str
    by_pct: int
    step_s: float
    """Of the cluster that was chosen, laid out anew."""
    usd_per_million: float | None
    best: ClusterShape
    """What would be chosen then."""

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
    wire = workload.wire

    def stream(dtype: str, batch_bytes: int, compression: str) -> Stream:
        found = wire.stream(dtype, batch_bytes, compression)
        client, worker = (cpu.times(factor) for cpu in (found.client_s_per_gb, found.worker_s_per_gb))
        return Stream(client, worker, found.gb_per_s.times(1 / factor), found.wire_ratio)

    return replace(workload, wire=Wire(stream, wire.compressions, wire.known_from, wire.request_s))


WORKLOADS: Mapping[str, Callable[[Workload, float], Workload]] = {
    "step of the accelerator": _accelerator,
    "CPU of the stages": _stages,
    "CPU of the wire": _wire,
    "bytes that travel": _bytes,
}
"""Inputs of the workload that are moved: name -> the workload with it at `factor` times its value."""


def sensitivity(
    workload: Workload, chosen: ClusterShape, shortlist: Sequence[ClusterShape], market: Market
) -> list[Change]:
    """Each input moved by CHANGES_PCT, alone; what is chosen then is looked for among the shortlist only."""
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
    speed: Interval = cluster.data.speed.times(factor)
    return replace(cluster, data=replace(cluster.data, speed=speed))


def _change(
    what: str, pct: int, workload: Workload, chosen: ClusterShape, shortlist: Sequence[ClusterShape], market: Market
) -> Change:
    own: Rated = rated(workload, [chosen], market)[0]
    best = ranking(rated(workload, shortlist, market))[0]
    examples = chosen.ranks * workload.trainer.batch_size
    step_s = own.s_per_million * examples / 1e6 / market.slowdown
    return Change(what, pct, step_s, own.usd_per_million, best.cluster)
