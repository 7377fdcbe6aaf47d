"""Chaos: schedules of faults that are drawn by a seed, and what may become of a job to which they are done."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from tfhet.launch.settings import LaunchSettings
from tfhet.planes.tf_service import ServiceSettings
from tfhet.simulate.cluster_file import ClusterFile
from tfhet.simulate.fault import LASTING, NETWORK, OF_A_HOST, Fault

GOES_ON, FAILURE, STOP, NEVER_JOINED = "goes on", "failure", "stop", "never joined"
"""What may become of a job: it ends as if nothing was; it fails; it was told to stop; it never began."""
LENGTH_S = 10.0
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
    ("hang", "launcher"): 2,
    ("hang", "host"): 2,
    ("sigterm", "launcher"): 2,
    ("sigterm", "host"): 1,
    ("partition", ""): 4,
    ("slow-disk", ""): 3,
    ("late-join", ""): 3,
    ("bad-peer", "control"): 3,
}
"""How often a fault is drawn, by kind and process."""
NETWORK_WEIGHTS = {("partition", "group"): 4, ("loss", ""): 3, ("delay", ""): 3, ("rate", ""): 3}
"""Where hosts have networks of their own, these too."""
AMOUNTS = {"loss": (0.005, 0.03), "delay": (0.01, 0.1), "rate": (20e6, 200e6)}
"""Of a network that is bad and still one: from, to."""
SHORT = 0.25
"""Of the lease: so long at most lasts what is to be over before anybody is taken for lost."""
HARMLESS, HARMFUL = 0.6, 1.5
"""Of the lease: a silence that nobody is lost for; and one after which the silent one surely is."""


@dataclass(frozen=True)
class Aim:
    """What of a job faults can be aimed at, and what decides what becomes of it."""

    data_hosts: int
    dnn_hosts: int
    ranks: int
    """Of all hosts together."""
    data_workers: int = 1
    """Of each data host."""
    dnn_workers: int = 0
    """Of each dnn host."""
    lease_s: float = 10.0
    ready_timeout_s: float = 300.0
    on_data_loss: str = "stop"
    built_in: bool = True
    """Whether the built-in trainer runs, which can do without a data host."""
    data_group: str = ""
    """Its name, where all of its hosts can be cut off together and networks be made worse; "" where not."""

    @classmethod
    def of(cls, cluster: ClusterFile, settings: LaunchSettings, *, networks: bool = False) -> Aim:
        """Of a job with these launcher arguments. networks: whether each host has one of its own."""
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
        """All of them, as faults name them."""
        return self._names("data", self.data_hosts) + self._names("dnn", self.dnn_hosts)

    @property
    def serving(self) -> tuple[str, ...]:
        """Those with data service workers."""
        data = self._names("data", self.data_hosts) if self.data_workers else ()
        return data + (self._names("dnn", self.dnn_hosts) if self.dnn_workers else ())

    def named(self, host: str) -> tuple[str, ...]:
        """The hosts that a fault's host stands for."""
        return self._names("data", self.data_hosts) if host and host == self.data_group else (host,)

    @staticmethod
    def _names(kind: str, count: int) -> tuple[str, ...]:
        return tuple(f"{kind}-{number + 1}" for number in range(count))


def schedule(seed: int, aim: Aim, length_s: float = LENGTH_S) -> tuple[Fault, ...]:
    """One to three faults, all within `length_s` of the beginning of training. The same for the same arguments."""
    draw = random.Random(f"chaos/{seed}")
    weights = WEIGHTS | (NETWORK_WEIGHTS if aim.data_group else {})
    if aim.data_group:
        del weights["slow-disk", ""]  # disks belong to process hosts
    possible = {
        what: weight
        for what, weight in weights.items()
        if (aim.serving or what[1] not in ("worker", "dispatcher"))
        and (len(aim.hosts) > 1 or what[0] not in ("partition", "late-join"))
    }
    (count,) = draw.choices((1, 2, 3), (3, 4, 3))
    drawn = draw.choices(list(possible), list(possible.values()), k=count)
    return tuple(_fault(draw, kind, process, aim, length_s) for kind, process in drawn)


def _fault(draw: random.Random, kind: str, process: str, aim: Aim, length_s: float) -> Fault:
    host, rank = "", None
    if process == "script":
        rank = draw.randrange(aim.ranks)
    elif process == "worker":
        host = draw.choice(aim.serving)
    elif process == "group":
        process, host = "", aim.data_group
    elif kind in OF_A_HOST or process in ("launcher", "host"):
        host = draw.choice(aim.hosts)
    after_s, every_s, for_s = round(draw.uniform(0.1, length_s), 1), None, None
    if kind == "late-join":
        ready_s = aim.ready_timeout_s
        after_s = round(draw.uniform(0.5, min(4.0, ready_s / 4)), 1) if draw.random() < 0.75 else ready_s + 30.0
    elif kind in LASTING and draw.random() < 0.7:
        longest_s = length_s if kind in ("slow-disk", *NETWORK) else SHORT * aim.lease_s
        for_s = round(draw.uniform(0.4, max(0.5, longest_s)), 1)
    elif (kind, process) in (("kill", "worker"), ("bad-peer", "control")) and draw.random() < 0.3:
        every_s = round(draw.uniform(5.0, 8.0), 1)
    return Fault(kind, process, host, rank, after_s, every_s, for_s, _amount(draw, kind))


def _amount(draw: random.Random, kind: str) -> float | None:
    """As exact as a fault's text says it."""
    if kind not in AMOUNTS:
        return None
    amount, digits = draw.uniform(*AMOUNTS[kind]), {"loss": 3, "delay": 2, "rate": -6}[kind]
    return round(amount, digits)


def allowed(faults: Sequence[Fault], aim: Aim) -> frozenset[str]:
    """What may become of a job to which all of `faults` are done while it trains.

    Hosts go by their `data-1` and `dnn-2`. "goes on" is in it only when no fault must end the job.
    """
    silent_s = sum(fault.for_s or 0.0 for fault in faults if silences(fault))
    each = [_alone(fault, aim, silent_s) for fault in faults] + [_without_data(faults, aim, silent_s)]
    never = [kinds for kinds in each if NEVER_JOINED in kinds]
    if any(GOES_ON not in kinds for kinds in never):
        return frozenset({NEVER_JOINED})  # and nothing else is done to it
    kinds = frozenset().union(*each)
    return kinds if all(GOES_ON in one for one in each) else kinds - {GOES_ON}


def harmful(fault: Fault, aim: Aim) -> bool:
    """Whether a fault alone may end the job, or take a data host away from it."""
    return allowed([fault], aim) != {GOES_ON} or _loss(fault, fault.for_s or 0.0, aim) > 0


def _alone(fault: Fault, aim: Aim, silent_s: float) -> frozenset[str]:
    """But for what depends on how many data hosts are left."""
    if fault.kind == "late-join":
        if fault.after_s < aim.ready_timeout_s / 2:
            return frozenset({GOES_ON})
        early = fault.after_s < aim.ready_timeout_s
        return frozenset({GOES_ON, NEVER_JOINED} if early else {NEVER_JOINED})
    if fault.kind == "oom" and fault.process != "script":
        # A server without memory may refuse a request, which is an error of the rank's, before it dies.
        return frozenset({GOES_ON, FAILURE})
    if fault.process == "script":
        return frozenset({GOES_ON if fault.kind == "hang" and fault.for_s is not None else FAILURE})
    if fault.kind == "sigterm" and fault.process in ("launcher", "host"):
        return frozenset({STOP})
    if aim.named(fault.host)[0].startswith("data-"):
        return frozenset({GOES_ON})
    return _by_loss(_loss(fault, silent_s, aim))


def _without_data(faults: Sequence[Fault], aim: Aim, silent_s: float) -> frozenset[str]:
    """What the loss of data hosts may do."""
    losses = dict.fromkeys(aim.serving, 0.0)
    for fault in faults:
        for host in aim.named(fault.host):
            if host in losses and host.startswith("data-"):
                losses[host] = max(losses[host], _loss(fault, silent_s, aim))
    if not losses or (aim.built_in and aim.on_data_loss == "local"):
        return frozenset({GOES_ON})
    return _by_loss(min(losses.values()) if aim.built_in else max(losses.values()))


def silences(fault: Fault) -> bool:
    """Whether it puts a host's launchers out of reach."""
    return fault.kind == "partition" or (fault.kind == "hang" and fault.process in ("launcher", "host"))


def _loss(fault: Fault, silent_s: float, aim: Aim) -> float:
    """How surely the fault costs the job its host: 0 not at all, 1 surely.

    silent_s: so long are hosts silent at most, by this fault and others like it.
    """
    if fault.kind == "kill" and fault.process in ("launcher", "host"):
        return 1.0
    if not silences(fault):
        return 0.0
    if fault.for_s is None or fault.for_s > HARMFUL * aim.lease_s:
        return 1.0
    return 0.5 if silent_s > HARMLESS * aim.lease_s else 0.0


def _by_loss(loss: float) -> frozenset[str]:
    return frozenset({GOES_ON} if loss == 0.0 else {FAILURE} if loss == 1.0 else {GOES_ON, FAILURE})
