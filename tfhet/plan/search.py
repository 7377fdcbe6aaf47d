"""All clusters that could do a workload, each with its best layout, and which of them are best."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tfhet.errors import UsageError
from tfhet.plan.host import ClusterShape, HostType
from tfhet.plan.money import Candidate, Market
from tfhet.plan.prediction import best_layout, predict
from tfhet.plan.workload import Workload


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
