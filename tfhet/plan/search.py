"""All clusters that could do a workload, each with its best layout.

space = Space(dnn=[p4d], data=[c5], ranks=[8], max_hosts=4)
order = ranking(rated(workload, space.clusters(), Market(usd_per_hour.get)))
order[0].cluster, order[0].layout, order[0].usd_per_million
[str(one.cluster) for one in frontier(order)]       # none of these is both dearer and slower than another
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tfhet.errors import UsageError
from tfhet.plan.host import ClusterShape, HostType
from tfhet.plan.money import Candidate, Market
from tfhet.plan.prediction import Layout, best_layout, predict
from tfhet.plan.workload import Workload
from tfhet.units import HOUR_S


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
        for dnn, dnn_hosts in self._trainers():
            yield ClusterShape(dnn, dnn_hosts)
            for data in self.data:
                for data_hosts in range(1, self.max_hosts - dnn_hosts + 1):
                    yield ClusterShape(dnn, dnn_hosts, data, data_hosts)

    def _trainers(self) -> Iterator[tuple[HostType, int]]:
        for ranks in self.ranks:
            for dnn in self.dnn:
                if ranks % dnn.ranks == 0 and 1 <= ranks // dnn.ranks <= self.max_hosts:
                    yield dnn, ranks // dnn.ranks


@dataclass(frozen=True)
class Rated:
    """A cluster as the search compares it, with expected values only."""

    cluster: ClusterShape
    layout: Layout
    s_per_million: float
    usd_per_million: float | None

    @property
    def by_money(self) -> tuple[float, int, float, float]:
        """Sorts the cheapest first, then the one with the fewest hosts, then the fastest."""
        usd = float("inf") if self.usd_per_million is None else float(f"{self.usd_per_million:.9g}")
        return (usd, self.cluster.hosts, self.s_per_million, _vcpus(self.cluster))

    @property
    def by_time(self) -> tuple[float, int, float]:
        """Sorts the fastest first, then the smallest."""
        return (self.s_per_million, self.cluster.hosts, _vcpus(self.cluster))


def _vcpus(cluster: ClusterShape) -> float:
    data = cluster.data_hosts * cluster.data.vcpus if cluster.data else 0.0
    return cluster.dnn_hosts * cluster.dnn.vcpus + data


def rated(workload: Workload, clusters: Iterable[ClusterShape], market: Market) -> list[Rated]:
    """Returns each cluster with its best layout."""
    found = []
    for cluster in clusters:
        step, layout = best_layout(workload, cluster)
        seconds = market.slowdown * step * 1e6 / (cluster.ranks * workload.trainer.batch_size)
        usd_per_hour = market.usd_per_hour(cluster)
        found.append(Rated(cluster, layout, seconds, None if usd_per_hour is None else seconds * usd_per_hour / HOUR_S))
    return found


def ranking(found: Sequence[Rated]) -> list[Rated]:
    """Returns the clusters with the best first: by money, or by time where no price is known."""
    priced = any(one.usd_per_million is not None for one in found)
    return sorted(found, key=(lambda one: one.by_money) if priced else (lambda one: one.by_time))


def frontier(found: Sequence[Rated]) -> list[Rated]:
    """Returns the clusters that no other beats in both money and time, the cheapest first.

    Without prices, it is the fastest one alone.
    """
    best, kept = float("inf"), []
    for one in ranking(found):
        if one.s_per_million < best:
            best = one.s_per_million
            kept.append(one)
        if one.usd_per_million is None:
            break
    return kept


def candidate(workload: Workload, one: Rated, market: Market) -> Candidate:
    """Returns the cluster with its intervals."""
    return Candidate(predict(workload, one.cluster, one.layout), market.usd_per_hour(one.cluster), market.slowdown)
