"""Targets of faults: hosts by their names, and the processes of a host by their kind."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import psutil

from tfhet import planes, strategies
from tfhet.errors import TfhetError, UsageError, unknown
from tfhet.launch import LAUNCHER_NAME
from tfhet.process import Child
from tfhet.simulate.fault import CUTS, Fault
from tfhet.simulate.host import SimulatedHost, hosts_named

Value = TypeVar("Value")


@dataclass(frozen=True)
class Targets:
    hosts: Sequence[SimulatedHost]
    dnn_group: str

    @property
    def leader(self) -> SimulatedHost:
        """The first host that trains."""
        return next(host for host in self.hosts if host.group == self.dnn_group)

    @property
    def ranks(self) -> int:
        return sum(host.ranks for host in self.hosts if host.group == self.dnn_group)

    def ports(self, host: SimulatedHost) -> list[int]:
        """Ports at which the launchers and servers of a host listen."""
        is_leader = host is self.leader
        own = [ports for name, ports in host.ports.plane.items() if is_leader or name not in host.shared]
        return [*[host.ports.control] * is_leader, *(port for ports in own for port in ports)]

    def check(self, fault: Fault) -> None:
        """Raises UsageError for a fault whose target does not exist."""
        hosts = hosts_named(self.hosts, fault.host)
        if not hosts:
            counts = Counter(host.role for host in self.hosts)
            known = [f"{role}-{n + 1}" for role in sorted(counts) for n in range(counts[role])]
            names = {name: None for host in self.hosts for name in (host.name, host.group)}
            unknown(f"host of fault {fault}", fault.host, [*known, *names])
        if fault.rank is not None and fault.rank >= self.ranks:
            unknown(f"rank of fault {fault}", fault.rank, range(self.ranks))
        is_alone = planes.kinds().get(fault.process)
        if is_alone is False and not any(host.serves for host in hosts):
            where = ", ".join(host.name for host in self.hosts if host.serves) or "on no host"
            raise UsageError(f"fault {fault}: no {fault.process} runs there; hosts that have one: {where}")
        if is_alone and self.leader not in hosts:
            raise UsageError(f"fault {fault}: the {fault.process} runs on dnn-1")
        if fault.kind in ("second-job", "stranger") and not any(self.ports(host) for host in hosts):
            raise UsageError(f"fault {fault}: nothing listens there; hosts with ports: dnn-1, and those with workers")
        if fault.kind == "half-checkpoint" and any(host.group != self.dnn_group for host in hosts):
            raise UsageError(f"fault {fault}: checkpoints are written on dnn hosts; write half-checkpoint:dnn-1")
        if fault.kind in CUTS and len(hosts) == len(self.hosts):
            raise UsageError(f"fault {fault}: that is every host of the cluster; no other is left to cut them off from")


@dataclass(frozen=True)
class Population:
    """A process that the simulator started, with all its descendants, at one moment."""

    everything: tuple[psutil.Process, ...]
    """All processes; the first one was started by the simulator."""
    launchers: dict[int | None, psutil.Process] = field(default_factory=dict)
    """By rank; None on a data host."""

    @classmethod
    def below(cls, pid: int, *, is_launcher: bool = False) -> Population:
        """Empty if the process is gone. is_launcher: whether `pid` is a launcher, even before it has its name."""
        try:
            first = psutil.Process(pid)
            everything = (first, *first.children(recursive=True))
        except psutil.Error:
            return cls(())
        named = [process for process in everything if _ask(process.name, "") == LAUNCHER_NAME]
        ranks = {process.pid: rank_of(process) for process in named}
        # A child has the name and the rank of its launcher until it runs its own program.
        named = [each for each in named if ranks.get(_ask(each.ppid, 0), -1) != ranks[each.pid]]
        starters = {_ask(process.ppid, 0) for process in named}  # without MPI a launcher starts one per rank
        launchers = {ranks[process.pid]: process for process in named if process.pid not in starters}
        return cls(everything, launchers or ({rank_of(first): first} if is_launcher else {}))

    def servers(self, kind: str) -> list[psutil.Process]:
        """Processes of the data plane of a kind in `planes.kinds()`."""
        return [process for process in self.everything if planes.kind_of(_ask(process.cmdline, [])) == kind]

    def scripts(self, rank: int | None = None) -> list[psutil.Process]:
        """Training scripts, of one rank or of all."""
        servers = {process.pid for kind in planes.kinds() for process in self.servers(kind)}
        launchers = [process for number, process in self.launchers.items() if rank in (None, number or 0)]
        below = [process for launcher in launchers for process in _ask(launcher.children, list[psutil.Process]())]
        return [process for process in below if process.pid not in servers]


async def kill_all(child: Child) -> None:
    """Kills a frozen launcher and its descendants, which are in other sessions."""
    for process in Population.below(child.pid).everything[1:]:
        with contextlib.suppress(psutil.Error):
            process.kill()
    child.kill()
    await child.wait()


def rank_of(process: psutil.Process) -> int | None:
    with contextlib.suppress(TfhetError):
        if rank := strategies.rank_of(_ask(process.environ, {})):
            return rank.rank
    return None


def _ask(question: Callable[..., Value], otherwise: Value) -> Value:
    """The answer of a process; `otherwise` if it is gone."""
    try:
        return question()
    except psutil.Error:
        return otherwise
