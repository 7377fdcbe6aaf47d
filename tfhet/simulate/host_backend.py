"""What the simulator asks of a backend of its hosts: process trees, or containers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from tfhet.process import Child
from tfhet.simulate.host import SimulatedHost

OnLine = Callable[[str], Callable[[str], None]]
"""By host name, what takes its lines."""


class HostBackend(Protocol):
    """Starts the hosts of one run, does to them what faults ask for, and removes what is left of them."""

    hosts: Sequence[SimulatedHost]
    notes: list[str]
    """What the user should know of the limits."""
    starts_launchers: bool
    """Whether it starts the launchers themselves, not containers with launchers inside."""
    cuts_batches: bool
    """Whether `cut` stops batches between hosts too, not only the launchers' link."""

    @property
    def cgroups(self) -> Mapping[str, Any]:
        """Control groups by host name; empty where hosts have none."""

    async def open(self, channels: Mapping[str, Path]) -> None:
        """Makes what the hosts share. `channels`: directories of this machine. Raises UsageError."""

    async def start(self, host: SimulatedHost, children: dict[str, Child]) -> None:
        """Starts the processes of a host. Each is put into `children` when it runs: by label, `host` or `host/rank`."""

    def limit(self) -> None:
        """Imposes the limits of all hosts, also of hosts that start later."""

    def cut(self, hosts: Collection[str]) -> None:
        """Separates these hosts, by name, from all others."""

    def heal(self, hosts: Collection[str]) -> None:
        """Takes one `cut` of these hosts back."""

    async def impair(self, kind: str, host: str, amount: float | None) -> None:
        """Does a fault of a kind in `fault.IMPAIRMENTS` to a host."""

    def restore(self, kind: str, host: str) -> None:
        """Takes the `impair` of this kind back: the host has its own limits again."""

    async def connect(self, address: str, port: int) -> asyncio.StreamWriter:
        """A TCP connection from outside the cluster to a host. Raises OSError."""

    def cpu_s(self) -> dict[str, float]:
        """CPU seconds of each host so far, by name; empty where that is not known."""

    def facts(self) -> dict[str, Any]:
        """Fields of RunSummary that only the backend knows."""

    async def close(self) -> None:
        """Removes what `open` and `start` made; the processes have ended."""
