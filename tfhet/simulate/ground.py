"""What the simulator asks of the ground that hosts stand on."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from tfhet.process import Child
from tfhet.simulate.host import SimulatedHost

OnLine = Callable[[str], Callable[[str], None]]
"""By host name, what hears its lines."""


class Network(Protocol):
    """Who can reach whom."""

    def cut(self, hosts: Collection[str]) -> None:
        """From now on these hosts, by name, and all others do not reach each other."""

    def heal(self, hosts: Collection[str]) -> None:
        """Takes one `cut` of these back."""


class Ground(Protocol):
    """Where the hosts of one run are started, and what is left of them removed."""

    hosts: Sequence[SimulatedHost]
    notes: list[str]
    """What the user should know of the limits."""

    @property
    def network(self) -> Network | None:
        """None where hosts cannot be cut off."""

    async def open(self, channels: Mapping[str, Path]) -> None:
        """Makes what the hosts share. `channels`: directories of this machine. Raises UsageError."""

    async def start(self, host: SimulatedHost, children: dict[str, Child]) -> None:
        """Starts what runs on a host, and puts it, as soon as it runs, into `children`: by label, `host` or
        `host/rank`."""

    def limit(self) -> None:
        """The limits of all hosts hold from now on, and for hosts that come later."""

    def cpu_s(self) -> dict[str, float]:
        """CPU seconds of each host so far, by name; empty where that is not known."""

    def facts(self) -> dict[str, Any]:
        """What belongs into the record: fields of RunSummary."""

    async def close(self) -> None:
        """Removes what `open` and `start` made; the processes have ended."""
