"""All clusters that could do a workload, each with its best layout; and the same with one input moved.

space = Space(dnn=[p4d], data=[c5], ranks=[8], max_hosts=4)
order = ranking(candidates(workload, space.clusters(), Market(usd_per_hour.get)))
order[0].cluster, order[0].prediction.layout, order[0].usd_per_million
[str(one.cluster) for one in frontier(order)]       # none of these is both dearer and slower than another
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tfhet.errors import UsageError
from tfhet.plan.host import ClusterShape, HostType
from tfhet.plan.money import Candidate, Market
from tfhet.plan.prediction import best_layout, predict
from tfhet.plan.workload import Workload
from tfhet.planes import WireCost

CHANGES_PCT = (-25, -10, 10, 25)
"""Percentages by which each input is moved."""


@dataclass(frozen=True)
class Space:
    """The clusters that a plan compares. Raises UsageError for a space without clusters."""

    dnn: Sequence[HostType]
    data: Sequence[HostType]
    ranks: Sequence[int]
    """Numbers of ranks that are allowed: a single one keeps the global batch what it is."""
    max_hosts: int
    """Maximum number of hosts of both groups together."""

    def __post_init__(self) -> None:
        if next(self.clusters(), None) is None:
            kinds = ", ".join(kind.name for kind in self.dnn) or "none"
            ranks = " or ".join(str(number) for number in self.ranks)
            raise UsageError(f"no cluster of at most {self.max_hosts} hosts has {ranks} ranks; dnn types: {kinds}")

    def clusters(self) -> Iterator[ClusterShape]:
        """Yields the clusters of each dnn group, the one without data hosts first."""
        for ranks in self.ranks:
            for dnn in self.dnn:
                dnn_hosts, rest = divmod(ranks, dnn.ranks)
                if rest or not 1 <= dnn_hosts <= self.max_hosts:
                    continue
                yield ClusterShape(dnn, dnn_hosts)
                for data in self.data:
                    for data_hosts in range(1, self.max_hosts - dnn_hosts + 1):
                        yield ClusterShape(dnn, dnn_hosts, data, data_hosts)


def candidates(workload: Workload, clusters: Iterable[ClusterShape], market: Market) -> list[Candidate]:
    """Returns each cluster with its best layout."""
    return [
        Candidate(
            predict(workload, cluster, best_layout(workload, cluster)[1]), market.usd_per_hour(cluster), market.slowdown
        )
        for cluster in clusters
    ]


def ranking(found: Sequence[Candidate]) -> list[Candidate]:
    """Returns the candidates with the best first: by expected money, or by time where no price is known.

    Of equally cheap ones, the one with the fewest hosts is better, then the fastest, then the smallest.
    """
    is_priced = any(one.usd_per_hour is not None for one in found)

    def rank(one: Candidate) -> tuple[float, ...]:
        cluster, seconds, usd = one.cluster, one.s_per_million.value, one.usd_per_million
        size = cluster.dnn_hosts * cluster.dnn.vcpus + (cluster.data_hosts * cluster.data.vcpus if cluster.data else 0)
        if not is_priced:
            return seconds, cluster.hosts, size
        return float(f"{usd.value:.9g}") if usd else math.inf, cluster.hosts, seconds, size

    return sorted(found, key=rank)


def frontier(found: Sequence[Candidate]) -> list[Candidate]:
    """Returns the candidates that no other beats in both money and time, the cheapest first.

    Without prices, it is the fastest one alone.
    """
    best, kept = math.inf, []
    for one in ranking(found):
        if one.s_per_million.value < best:
            best = one.s_per_million.value
            kept.append(one)
        if one.usd_per_hour is None:
            break
    return kept


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
