"""The processes of a host, by what they are."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field

import psutil

from tfhet import planes, strategies
from tfhet.errors import TfhetError
from tfhet.launch.init import LAUNCHER_NAME


@dataclass(frozen=True)
class Population:
    """Those below one process that the simulator started, it included, at one moment."""

    everything: tuple[psutil.Process, ...]
    """What the simulator started comes first."""
    launchers: dict[int | None, psutil.Process] = field(default_factory=dict)
    """By rank; None on a data host."""

    @classmethod
    def below(cls, pid: int, *, is_launcher: bool = False) -> Population:
        """Empty when it is gone. is_launcher: whether the process is one, also before it calls itself so."""
        try:
            first = psutil.Process(pid)
            everything = (first, *first.children(recursive=True))
        except psutil.Error:
            return cls(())
        named = [process for process in everything if _name(process) == LAUNCHER_NAME]
        starters = {_parent(process) for process in named}  # where nobody gave ranks, a launcher starts others
        launchers = {rank_of(process): process for process in named if process.pid not in starters}
        return cls(everything, launchers or ({rank_of(first): first} if is_launcher else {}))

    @property
    def has_launchers(self) -> bool:
        return any(_name(process) == LAUNCHER_NAME for process in self.everything)

    def servers(self, kind: str) -> list[psutil.Process]:
        """Processes of the data plane, of one of `planes.kinds()`."""
        return [process for process in self.everything if _serves(process, kind)]

    def scripts(self, rank: int | None = None) -> list[psutil.Process]:
        """Training scripts, of one rank or of all."""
        servers = {process.pid for kind in planes.kinds() for process in self.servers(kind)}
        found = []
        for number, launcher in self.launchers.items():
            if rank is None or (number or 0) == rank:
                with contextlib.suppress(psutil.Error):
                    found += [process for process in launcher.children() if process.pid not in servers]
        return found


def lives(process: psutil.Process) -> bool:
    """Whether it runs; a zombie does not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def rank_of(process: psutil.Process) -> int | None:
    """The rank that its environment says; None without one."""
    try:
        rank = strategies.rank_of(process.environ())
    except (psutil.Error, TfhetError):
        return None
    return None if rank is None else rank.rank


def _name(process: psutil.Process) -> str:
    try:
        return process.name()
    except psutil.Error:
        return ""


def _parent(process: psutil.Process) -> int | None:
    try:
        return process.ppid()
    except psutil.Error:
        return None


def _serves(process: psutil.Process, kind: str) -> bool:
    try:
        words = process.cmdline()
    except psutil.Error:
        return False
    return planes.kind_of(words) == kind
