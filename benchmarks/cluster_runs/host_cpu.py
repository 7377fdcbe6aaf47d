"""CPU seconds of simulated hosts, by what used them: read from the hosts' cgroups and from their processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tfhet.clock import SYSTEM, Clock, cpu_of

LAUNCHERS, DISPATCHER, WORKERS, TRAINERS = "launchers", "dispatcher", "workers", "trainers"
KINDS = (WORKERS, TRAINERS, DISPATCHER, LAUNCHERS)


class Group(Protocol):
    """The processes of one host, as the kernel keeps their account."""

    def cpu_s(self) -> float: ...

    def throttled_s(self) -> float: ...

    def pids(self) -> list[int]: ...


@dataclass(frozen=True)
class HostCpu:
    """One look at all hosts, or the difference of two."""

    at_s: float
    """When; of a difference, how long."""
    used_s: Mapping[str, float]
    """By host, as its cgroup counts."""
    throttled_s: Mapping[str, float]
    """By host: how long it was kept from running, summed over the CPUs."""
    by_process: Mapping[tuple[str, int, str], float] = field(repr=False)
    """By host, process id and kind: of those alive."""

    @classmethod
    def now(cls, groups: Mapping[str, Group], clock: Clock = SYSTEM) -> HostCpu:
        """The CPU that the hosts have used until now."""
        processes = {}
        for host, group in groups.items():
            for pid in group.pids():
                try:
                    processes[host, pid, kind(_words(pid))] = cpu_of(pid)
                except OSError:  # it has ended meanwhile
                    continue
        used = {host: group.cpu_s() for host, group in groups.items()}
        throttled = {host: group.throttled_s() for host, group in groups.items()}
        return cls(clock.monotonic(), used, throttled, processes)

    def __sub__(self, earlier: HostCpu) -> HostCpu:
        return HostCpu(
            self.at_s - earlier.at_s,
            {host: used - earlier.used_s.get(host, 0.0) for host, used in self.used_s.items()},
            {host: value - earlier.throttled_s.get(host, 0.0) for host, value in self.throttled_s.items()},
            {key: used - earlier.by_process.get(key, 0.0) for key, used in self.by_process.items()},
        )

    @property
    def total_s(self) -> float:
        """CPU seconds of all hosts."""
        return sum(self.used_s.values())

    def of(self, wanted: str) -> float:
        """CPU seconds of one kind of process, on all hosts."""
        return sum(used for (_, _, found), used in self.by_process.items() if found == wanted)


def kind(words: Sequence[str]) -> str:
    """The kind of a process, by its command line."""
    if "tfhet.planes.tf_service.server" in words:
        return DISPATCHER if "dispatcher" in words else WORKERS
    if "tfhet.trainer" in words or any(word.endswith("_train.py") for word in words[1:2]):
        return TRAINERS
    return LAUNCHERS


def _words(pid: int) -> list[str]:
    with open(f"/proc/{pid}/cmdline", "rb") as file:
        return file.read().decode(errors="replace").split("\0")
