"""Rank sources: programs that start processes as ranks, and the variables that they set.

tfhet's own launcher is one source, MPI another (`tfhet.strategies.mpi`), and strategies have further ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from tfhet.cluster import RANK_VARIABLES, Place, Rank


@dataclass(frozen=True)
class RankSource:
    name: str
    """Value of `Rank.source`, like `mpi`."""
    starter: str
    """Program that starts the ranks, like `mpirun`."""
    words: str
    """Description of a rank of this source in the log."""
    variables: tuple[str, str, str, str]
    """The variables of rank, size, local rank and local size."""
    own: bool = False
    """Whether tfhet itself numbers the ranks, and has to let them find each other."""
    strategy: str = ""
    """Name of the default strategy of such ranks; "": it depends on their number."""

    def read(self, env: Mapping[str, str]) -> Rank | None:
        """The rank that this source assigned to a process, or None. Raises ClusterError like `Rank.read`."""
        return Rank.read(env, self.variables, self.name) if self.variables[0] in env else None

    async def gone(self, place: Place) -> str:
        """Waits until the process that started the ranks of this host has ended, and describes it; the launcher treats
        that as a request to stop. By default it never returns: most sources end their ranks themselves."""
        return await asyncio.get_running_loop().create_future()

    def release(self, place: Place) -> None:
        """Releases programs of the source that would wait for a failed job."""


OWN = RankSource("tfhet", "alone", "without MPI", RANK_VARIABLES, own=True)
"""Ranks that a launcher of tfhet numbered, and a process that is the only rank."""
