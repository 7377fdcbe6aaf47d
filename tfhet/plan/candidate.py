"""The clusters that could do a workload, each with its best layout and its price, and which of them are best."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from tfhet.arguments import check_positive
from tfhet.errors import UsageError
from tfhet.plan.host import ClusterShape, HostType, UsdPerHour
from tfhet.plan.memory import Misfit
from tfhet.plan.prediction import Prediction, best_layout, predict
from tfhet.plan.workload import Workload
from tfhet.record import Interval
from tfhet.units import HOUR_S


@dataclass(frozen=True)
class Candidate:
    prediction: Prediction
    usd_per_hour: float | None
    missed: tuple[str, ...] = ()
    on_frontier: bool = False
    """Whether no other cluster is both cheaper and faster."""
    misfits: tuple[Misfit, ...] = ()
    """Hosts with too little memory or disk."""

    @property
    def cluster(self) -> ClusterShape:
        return self.prediction.cluster

    @property
    def s_per_million(self) -> Interval:
        return self.prediction.step_s.times(1e6 / self.prediction.examples)

    @property
    def usd_per_million(self) -> Interval | None:
        return None if self.usd_per_hour is None else self.s_per_million.times(self.usd_per_hour / HOUR_S)


@dataclass(frozen=True)
class PlanLimits:
    """Limits that a cluster has to keep. Raises UsageError for limits that need `examples`, or are not positive."""

    examples: float | None = None
    """Number of examples of the whole training, in all epochs."""
    deadline_h: float | None = None
    budget_usd: float | None = None

    def __post_init__(self) -> None:
        check_positive(self, *vars(self))
        if self.examples is None and (self.deadline_h or self.budget_usd):
            raise UsageError("a deadline or a budget needs --examples: the number of examples of all epochs together")

    def missed(self, one: Candidate) -> tuple[str, ...]:
        """Returns the limits that a cluster does not keep, in words."""
        if self.examples is None:
            return ()
        millions, words, usd = self.examples / 1e6, [], one.usd_per_million
        if self.deadline_h is not None and (hours := millions * one.s_per_million.value / HOUR_S) > self.deadline_h:
            words.append(f"takes {hours:.3g} h of {self.deadline_h:g}")
        if self.budget_usd is not None and usd is None:
            words.append("has no price to compare with the budget")
        elif self.budget_usd is not None and usd is not None and millions * usd.value > self.budget_usd:
            words.append(f"costs {millions * usd.value:.4g} USD of {self.budget_usd:g}")
        return tuple(words)


def break_even_usd_per_hour(mixed: Candidate, alone: Candidate, price_of: UsdPerHour) -> Interval | None:
    """Returns the price of one data host at which an example costs as much on `mixed` as on `alone`. A cheaper host
    pays. The price is 0 where a data host pays at no price; None where another price is missing."""
    usd, seconds = alone.usd_per_million, mixed.s_per_million
    dnn_usd_per_hour = replace(mixed.cluster, data=None, data_hosts=0).usd_per_hour(price_of)
    if usd is None or dnn_usd_per_hour is None:
        return None

    def price(usd_per_million: float, s_per_million: float) -> float:
        return max(0.0, (usd_per_million * HOUR_S / s_per_million - dnn_usd_per_hour) / mixed.cluster.data_hosts)

    return Interval(price(usd.value, seconds.value), price(usd.low, seconds.high), price(usd.high, seconds.low))


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


def candidates(workload: Workload, clusters: Iterable[ClusterShape], price_of: UsdPerHour) -> list[Candidate]:
    """Returns each cluster with its best layout, and the hosts of it that are too small."""
    found = []
    for cluster in clusters:
        layout = best_layout(workload, cluster)[1]
        misfits = tuple(workload.memory.misfits(cluster, layout))
        usd = cluster.usd_per_hour(price_of)
        found.append(Candidate(predict(workload, cluster, layout), usd, misfits=misfits))
    return found


def ranking(found: Sequence[Candidate]) -> list[Candidate]:
    """Returns the candidates with the best first: by expected money, or by time where no price is known. Of equally
    cheap ones, the one with the fewest hosts is better, then the fastest, then the smallest."""
    is_priced = any(one.usd_per_hour is not None for one in found)

    def rank(one: Candidate) -> tuple[float, ...]:
        cluster, seconds, usd = one.cluster, one.s_per_million.value, one.usd_per_million
        size = cluster.dnn_hosts * cluster.dnn.vcpus + (cluster.data_hosts * cluster.data.vcpus if cluster.data else 0)
        if not is_priced:
            return seconds, cluster.hosts, size
        return float(f"{usd.value:.9g}") if usd else math.inf, cluster.hosts, seconds, size

    return sorted(found, key=rank)


def frontier(found: Sequence[Candidate]) -> list[Candidate]:
    """Returns the candidates that no other beats in both money and time, cheapest first; without prices the fastest."""
    best, kept = math.inf, []
    for one in ranking(found):
        if one.s_per_million.value < best:
            best = one.s_per_million.value
            kept.append(one)
        if one.usd_per_hour is None:
            break
    return kept
