"""Chaos: schedules of faults that are drawn by a seed."""

from __future__ import annotations

import random
from dataclasses import dataclass

from tfhet.launch import LaunchSettings
from tfhet.planes.tf_service import ServiceSettings
from tfhet.simulate import ClusterFile, Fault
from tfhet.simulate.fault import CUTS, LASTING, NETWORK, OF_A_HOST, ONCE

WEIGHTS = {
    ("kill", "worker"): 6,
    ("kill", "dispatcher"): 4,
    ("kill", "script"): 2,
    ("kill", "launcher"): 2,
    ("kill", "host"): 3,
    ("oom", "worker"): 2,
    ("oom", "dispatcher"): 1,
    ("oom", "script"): 1,
    ("hang", "worker"): 4,
    ("hang", "dispatcher"): 3,
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
    ("half-checkpoint", ""): 2,
    ("late-join", ""): 3,
    ("stranger", ""): 4,
}
"""Relative frequency of a fault, by kind and process."""
OF_SCRIPTS = {
    what: weight
    for what, weight in WEIGHTS.items()
    if what[0] not in ("half-checkpoint", "second-job", "same-base", "clock")
}
"""The same for jobs with a script of their own, which has no checkpoint, and ends as it is when it is stopped."""
OF_FEEDS = {
    ("kill", "feed"): 10,
    ("hang", "feed"): 7,
    **{what: weight for what, weight in OF_SCRIPTS.items() if what[1] not in ("worker", "dispatcher")},
}
"""The same for jobs with a feed."""
OF_RAY = {
    ("kill", "ray"): 10,
    ("hang", "ray"): 7,
    **{what: weight for what, weight in OF_SCRIPTS.items() if what[1] not in ("worker", "dispatcher")},
}
"""The same for jobs that read Ray Data."""
SERVERS = ("worker", "dispatcher", "feed", "ray")
"""Kinds of processes that serve."""
NETWORK_WEIGHTS = {("partition", "group"): 4, ("loss", ""): 3, ("delay", ""): 3, ("rate", ""): 3}
"""More faults, for hosts that have networks of their own."""
AMOUNTS = {"loss": (0.005, 0.03), "delay": (0.01, 0.1), "rate": (20e6, 200e6), "slow-dns": (0.2, 1.0)}
"""Range of the amount of a fault that a job may survive."""
JUMPS = (-86400.0, -600.0, -5.0, 5.0, 600.0, 86400.0)
"""Seconds by which a clock jumps."""
DISK = ("full-disk", "failing-write")
SILENCES = (0.25, 3.0)
"""Range of the silence of a host or process as shares of the lease, unless it is for ever."""
FULL_S = (0.4, 2.0)
"""Range of the seconds in which writing fails: it is over before the job writes down how it ended."""
MOMENTS = {"steps": 8, "scripts": 6, "start": 4, "end": 2}
"""Relative frequency of the moments from which a fault counts, for kinds that may come at all of them."""
WHILE_TRAINING = {"oom", "sigterm", "second-job", *NETWORK}
"""Kinds of which it is certain only then what a job does."""


@dataclass(frozen=True)
class Aim:
    """A job as far as faults can be aimed at it, and as far as their effect depends on it."""

    data_hosts: int
    dnn_hosts: int
    ranks: int
    """Number of ranks of the job."""
    data_workers: int = 1
    """Workers per data host."""
    dnn_workers: int = 0
    """Workers per dnn host."""
    lease_s: float = 10.0
    ready_timeout_s: float = 300.0
    on_data_loss: str = "stop"
    built_in: bool = True
    """Whether the built-in trainer runs, which can train without a data host."""
    plane: str = "tf_service"
    """Name of the data plane."""
    strategy: str = ""
    """`ray`: the job is a script for Ray, on the first dnn host, and has no account."""
    data_group: str = ""
    """Name of the data group, where hosts have networks that faults can change; "" elsewhere."""

    @classmethod
    def of(cls, cluster: ClusterFile, settings: LaunchSettings, *, networks: bool = False) -> Aim:
        """The aim of a job with these settings. networks: whether each host has a network of its own."""
        dnn = cluster.training_group(settings.dnn_group)
        hosts = {True: 0, False: 0}
        service = ServiceSettings.of(settings.planes)
        for name, group in cluster.groups.items():
            hosts[name == dnn] += group.hosts
        return cls(
            data_hosts=hosts[False],
            dnn_hosts=hosts[True],
            ranks=hosts[True] * (cluster.groups[dnn].ranks if dnn in cluster.groups else 0),
            data_workers=service.data_host_workers,
            dnn_workers=service.dnn_host_workers,
            lease_s=settings.lease_s,
            ready_timeout_s=settings.ready_timeout_s,
            on_data_loss=settings.on_data_loss,
            built_in=not settings.train_script,
            data_group=next((name for name in cluster.groups if name != dnn), "") if networks else "",
        )

    @property
    def hosts(self) -> tuple[str, ...]:
        """All hosts, as faults name them."""
        return self._names("data", self.data_hosts) + self._names("dnn", self.dnn_hosts)

    @property
    def serving(self) -> tuple[str, ...]:
        """Hosts with data service workers."""
        data = self._names("data", self.data_hosts) if self.data_workers else ()
        return data + (self._names("dnn", self.dnn_hosts) if self.dnn_workers else ())

    @property
    def listening(self) -> tuple[str, ...]:
        """Hosts with ports that others know: the leader's, and those that serve."""
        return tuple(dict.fromkeys(("dnn-1", *self.serving)))

    @property
    def needing(self) -> tuple[str, ...]:
        """Hosts whose node of Ray the job cannot be without: that of the head, and those with ranks."""
        return self._names("dnn", 1 if self.strategy == "ray" else self.dnn_hosts)

    def named(self, host: str) -> tuple[str, ...]:
        """The hosts that a fault's host stands for."""
        return self._names("data", self.data_hosts) if host and host == self.data_group else (host,)

    @staticmethod
    def _names(kind: str, count: int) -> tuple[str, ...]:
        return tuple(f"{kind}-{number + 1}" for number in range(count))


def schedule(seed: int, aim: Aim, length_s: float) -> tuple[Fault, ...]:
    """One to three faults, each within `length_s` of its moment. The same for the same arguments."""
    draw = random.Random(f"chaos/{seed}")
    own = {"feed": OF_FEEDS, "ray": OF_RAY}
    weights = own.get(aim.plane, WEIGHTS if aim.built_in else OF_SCRIPTS)
    weights = weights | (NETWORK_WEIGHTS if aim.data_group else {})
    if aim.data_group:  # in a container, the witness writes to the disk that would be full
        weights = {what: weight for what, weight in weights.items() if what[0] not in DISK}
    possible = {
        what: weight
        for what, weight in weights.items()
        if (aim.serving or what[1] not in SERVERS) and (len(aim.hosts) > 1 or what[0] not in (*CUTS, "late-join"))
    }
    (count,) = draw.choices((1, 2, 3), (3, 4, 3))
    drawn = draw.choices(list(possible), list(possible.values()), k=count)
    return tuple(_fault(draw, kind, process, aim, length_s) for kind, process in drawn)


def _fault(draw: random.Random, kind: str, process: str, aim: Aim, length_s: float) -> Fault:
    host, rank = "", None
    if process == "script":
        rank = draw.randrange(aim.ranks)
    elif process in ("worker", "feed"):
        host = draw.choice(aim.serving)
    elif process == "ray":  # a node on each host
        host = draw.choice(aim.hosts)
    elif process == "group":
        process, host = "", aim.data_group
    elif kind == "half-checkpoint":
        host = "dnn-1"
    elif kind in ("second-job", "stranger"):
        host = draw.choice(aim.listening)
    elif kind in OF_A_HOST or process in ("launcher", "host"):
        host = draw.choice(aim.hosts)
    since = _moment(draw, kind, process, host)
    after_s, every_s, for_s = round(draw.uniform(0.1, 1.0 if since == "end" else length_s), 1), None, None
    if kind == "late-join":
        ready_s = aim.ready_timeout_s
        after_s = round(draw.uniform(0.5, min(4.0, ready_s / 4)), 1) if draw.random() < 0.75 else ready_s + 30.0
    elif kind in ONCE:
        after_s = 0.0
    elif kind in DISK:
        for_s = round(draw.uniform(*FULL_S), 1)
    elif kind in LASTING and draw.random() < 0.75:
        shortest_s, longest_s = (aim.lease_s * share for share in SILENCES)
        harmless = kind not in (*CUTS, "hang")
        for_s = round(draw.uniform(0.4, length_s) if harmless else draw.uniform(shortest_s, longest_s), 1)
    elif (kind, process) in (("kill", "worker"), ("kill", "feed"), ("stranger", "")) and draw.random() < 0.3:
        every_s = round(draw.uniform(5.0, 8.0), 1)
    return Fault(kind, process, host, rank, after_s, every_s, for_s, _amount(draw, kind), since)


def _moment(draw: random.Random, kind: str, process: str, host: str) -> str:
    """The moment from which a fault counts: one at which it is known what the job may do."""
    possible = dict(MOMENTS)
    serves = process in SERVERS
    if kind in (*ONCE, *DISK):
        return "steps"
    if kind in WHILE_TRAINING or process == "script" or (kind == "hang" and serves):
        del possible["start"]
    if kind in WHILE_TRAINING or process == "script" or (host.startswith("dnn") and not serves):
        del possible["end"]
    return draw.choices(list(possible), list(possible.values()))[0]


def _amount(draw: random.Random, kind: str) -> float | None:
    """Rounded to the digits of a fault's text."""
    if kind == "clock":
        return draw.choice(JUMPS)
    if kind not in AMOUNTS:
        return None
    amount, digits = draw.uniform(*AMOUNTS[kind]), {"loss": 3, "delay": 2, "rate": -6, "slow-dns": 1}[kind]
    return round(amount, digits)
