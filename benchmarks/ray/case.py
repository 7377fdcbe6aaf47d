"""The hosts on which the article's chain runs, scaled to this machine, and what they cost."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from tfhet import catalogue
from tfhet.catalogue import Instance
from tfhet.errors import UsageError
from tfhet.record import usable_cores
from tfhet.simulate import ClusterFile, GroupFile

DNN, DATA = "ml.g5.xlarge", "ml.c5.4xlarge"
"""Instance types of the article."""
OWN_CPUS = {DNN: 0.35, DATA: 0.15}
"""CPUs that a host here has beside its scaled ones: what runs beside tasks (Ray's own processes, the rank, the
launcher) takes as much of a host of 0.3 CPUs as of one of 4."""
SCALE = 20 / (0.9 * usable_cores() - sum(OWN_CPUS.values()))
"""vCPUs of the article's hosts for one CPU here: all 20, and OWN_CPUS, take nine tenths of this machine."""


@dataclass(frozen=True)
class Case:
    """The dnn host, and what is beside it."""

    data_hosts: int

    @property
    def instances(self) -> tuple[str, ...]:
        """Instance type of each host. Both kinds prepare batches."""
        return (DNN, *(DATA for _ in range(self.data_hosts)))

    @property
    def cpus(self) -> float:
        """CPUs of all hosts, here."""
        return sum(map(cpus_of, self.instances))

    @property
    def offered(self) -> dict[str, int]:
        """Arguments of the launcher: CPUs that each host offers to tasks.

        A data host offers twice those that it has, so that the next task is there when one ends. Tasks of half a CPU
        would do the same, but a node ends idle workers beyond its number of CPUs, and starts others."""
        return {"dnn_host_cpus": math.ceil(cpus_of(DNN)), "data_host_cpus": math.ceil(2 * cpus_of(DATA))}

    def cluster(self, name: str) -> ClusterFile:
        groups = {"dnn_group": GroupFile(instance_type=DNN, cpus=cpus_of(DNN))}
        if self.data_hosts:
            groups["data_group"] = GroupFile(self.data_hosts, instance_type=DATA, cpus=cpus_of(DATA))
        return ClusterFile(name, groups)


CASES: Mapping[str, Case] = {"homogeneous": Case(0), "heterogeneous": Case(1)}


def cpus_of(instance: str) -> float:
    """CPUs here of a host of an instance type, with those of OWN_CPUS."""
    known: Instance = catalogue.shipped().instance(instance)
    return known.vcpus / SCALE + OWN_CPUS[instance]


@dataclass(frozen=True)
class Prices:
    """Prices of the hosts of each case in one market, in USD an hour."""

    market: str
    region: str
    usd_per_hour: Mapping[str, float]
    """By instance type."""

    @classmethod
    def known(cls) -> Prices:
        """The package's own, in a market that has both types. Raises UsageError where none has."""
        listed = catalogue.shipped()
        market = listed.common_market([DNN, DATA])
        prices = {name: listed.price(name, market=market) for name in (DNN, DATA)}
        if market is None or None in prices.values():
            raise UsageError(f"no market has prices of both {DNN} and {DATA}")
        found = {name: price.usd_per_hour for name, price in prices.items() if price is not None}
        return cls(market, catalogue.REGION, found)

    def of(self, case: Case) -> float:
        """USD an hour of all hosts of a case."""
        return sum(self.usd_per_hour[name] for name in case.instances)
