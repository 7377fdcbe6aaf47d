"""Schedules of faults that are drawn from a seed."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

from faults.job import LEASE_S, READY_S
from tfhet.simulate import ClusterFile, Fault
from tfhet.simulate.fault import CUTS, LASTING, OF_A_HOST, ONCE

What = tuple[str, str]
"""Kind of a fault, and the process that it harms."""
COMMON: Mapping[What, int] = {
    ("kill", "script"): 2,
    ("kill", "launcher"): 2,
    ("kill", "host"): 3,
    ("oom", "script"): 1,
    ("hang", "launcher"): 4,
    ("hang", "host"): 3,
    ("sigterm", "launcher"): 3,
    ("sigterm", "host"): 1,
    ("partition", ""): 3,
    ("partition-in", ""): 2,
    ("partition-out", ""): 2,
    ("stall", ""): 3,
    ("slow-disk", ""): 3,
    ("slow-write", ""): 2,
    ("full-disk", ""): 2,
    ("failing-write", ""): 1,
    ("slow-dns", ""): 2,
    ("clock", ""): 3,
    ("second-job", ""): 2,
    ("same-base", ""): 2,
    ("late-join", ""): 3,
    ("stranger", ""): 4,
}
"""Relative frequencies of the faults of every job."""
OF_PLANE: Mapping[str, Mapping[What, int]] = {
    "tf_service": {
        ("kill", "worker"): 6,
        ("kill", "dispatcher"): 4,
        ("oom", "worker"): 2,
        ("oom", "dispatcher"): 1,
        ("hang", "worker"): 4,
        ("hang", "dispatcher"): 3,
        ("half-checkpoint", ""): 2,  # of the built-in trainer
    },
    "feed": {("kill", "feed"): 10, ("hang", "feed"): 7},
    "ray": {("kill", "ray"): 10, ("hang", "ray"): 7},
}
"""Relative frequencies of the faults of a data plane's servers."""
OF_NETWORKS: Mapping[What, int] = {("partition", "group"): 4, ("loss", ""): 3, ("delay", ""): 3, ("rate", ""): 3}
"""Relative frequencies of further faults of hosts with networks of their own."""
SERVERS = ("worker", "dispatcher", "feed", "ray")
AMOUNTS = {"loss": (0.005, 0.03, 3), "delay": (0.01, 0.1, 2), "rate": (20e6, 200e6, -6), "slow-dns": (0.2, 1.0, 1)}
"""Range of the amount of a fault that a job may survive, and the digits that are kept."""
CLOCK_JUMPS_S = (-86400.0, -600.0, -5.0, 5.0, 600.0, 86400.0)
DISK = ("full-disk", "failing-write")
DISK_S = (0.4, 2.0)
"""Range of the seconds in which writing fails: the job has to be able to write its result."""
SILENCES_S = (LEASE_S / 4, 3 * LEASE_S)
"""Range of the silence of a host or process, unless it is for ever."""
MOMENTS = {"steps": 8, "scripts": 6, "start": 4, "end": 2}
"""Relative frequencies of the moments that a fault's time counts from."""


@dataclass(frozen=True)
class Aim:
    """A job as far as faults can be aimed at it."""

    data_hosts: int
    dnn_hosts: int
    ranks: int
    plane: str = "tf_service"
    has_networks: bool = False
    """Whether each host has a network of its own, that faults can harm."""

    @classmethod
    def of(cls, cluster: ClusterFile, plane: str, *, has_networks: bool = False) -> Aim:
        """The aim of a job on a cluster of a data group and a dnn group."""
        data, dnn = cluster.groups["data_group"], cluster.groups["dnn_group"]
        return cls(data.hosts, dnn.hosts, dnn.hosts * dnn.ranks, plane, has_networks)

    @property
    def data(self) -> list[str]:
        """The data hosts, as faults name them."""
        return [f"data-{number + 1}" for number in range(self.data_hosts)]

    @property
    def hosts(self) -> list[str]:
        """All hosts, as faults name them."""
        return [*self.data, *(f"dnn-{number + 1}" for number in range(self.dnn_hosts))]

    @property
    def weights(self) -> dict[What, int]:
        """Relative frequencies of the faults of this job."""
        found = {**COMMON, **OF_PLANE[self.plane], **(OF_NETWORKS if self.has_networks else {})}
        # In a container, the witness writes to the disk that would be full.
        return {what: weight for what, weight in found.items() if not (self.has_networks and what[0] in DISK)}


def schedule(seed: int, aim: Aim, length_s: float) -> tuple[Fault, ...]:
    """One to three faults, each within `length_s` of its moment: the same for the same arguments."""
    draw, weights = random.Random(f"faults/{seed}"), aim.weights
    (count,) = draw.choices((1, 2, 3), (3, 4, 3))
    drawn = draw.choices(list(weights), list(weights.values()), k=count)
    return tuple(_fault(draw, kind, process, aim, length_s) for kind, process in drawn)


def _fault(draw: random.Random, kind: str, process: str, aim: Aim, length_s: float) -> Fault:
    rank = draw.randrange(aim.ranks) if process == "script" else None
    process, host = ("", "data_group") if process == "group" else (process, _host(draw, kind, process, aim))
    since = "steps" if kind in (*ONCE, *DISK) else draw.choices(list(MOMENTS), list(MOMENTS.values()))[0]
    after_s, every_s, for_s = round(draw.uniform(0.1, 1.0 if since == "end" else length_s), 1), None, None
    if kind == "late-join":
        after_s = round(draw.uniform(0.5, 4.0), 1) if draw.random() < 0.75 else READY_S + 30.0
    elif kind in ONCE:
        after_s = 0.0
    elif kind in DISK:
        for_s = round(draw.uniform(*DISK_S), 1)
    elif kind in LASTING and draw.random() < 0.75:
        for_s = round(draw.uniform(*(SILENCES_S if kind in (*CUTS, "hang") else (0.4, length_s))), 1)
    elif (kind, process) in (("kill", "worker"), ("kill", "feed"), ("stranger", "")) and draw.random() < 0.3:
        every_s = round(draw.uniform(5.0, 8.0), 1)
    return Fault(kind, process, host, rank, after_s, every_s, for_s, _amount(draw, kind), since)


def _host(draw: random.Random, kind: str, process: str, aim: Aim) -> str:
    """The host of a fault, or "" where the process says it."""
    if process in ("worker", "feed"):
        return draw.choice(aim.data)
    if kind == "half-checkpoint":
        return "dnn-1"
    if kind in ("second-job", "stranger"):  # where something listens
        return draw.choice(["dnn-1", *aim.data])
    return draw.choice(aim.hosts) if kind in OF_A_HOST or process in ("launcher", "host", "ray") else ""


def _amount(draw: random.Random, kind: str) -> float | None:
    if kind == "clock":
        return draw.choice(CLOCK_JUMPS_S)
    if kind not in AMOUNTS:
        return None
    least, most, digits = AMOUNTS[kind]
    return round(draw.uniform(least, most), digits)
