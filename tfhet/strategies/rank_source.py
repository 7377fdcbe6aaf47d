"""Rank sources: programs that start a process as one of several ranks, and the variables by which they say so.

tfhet's own launcher is one source; MPI is another (`tfhet.strategies.mpi`); a strategy brings those of its own.
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
    """How a launcher introduces a rank of this source."""
    variables: tuple[str, str, str, str]
    """The variables of rank, size, local rank and local size."""
    own: bool = False
    """Whether tfhet itself numbers the ranks, and so has to tell them how to find each other."""

    strategy: str = ""
    """Name of the strategy that such ranks train by, unless another is named; "": by their number."""

    def read(self, env: Mapping[str, str]) -> Rank | None:
        """The rank that this source gave a process; None when it gave none. Raises as `Rank.read`."""
        return Rank.read(env, self.variables, self.name) if self.variables[0] in env else None

    async def gone(self, place: Place) -> str:
        """Returns once the process that started the ranks of this host has ended, with a description of it; the
        launcher takes that for a request to stop. Never here: most sources end their ranks themselves."""
        return await asyncio.get_running_loop().create_future()

    def release(self, place: Place) -> None:
        """Releases what waits for a job that has failed, where the source leaves something waiting."""


OWN = RankSource("tfhet", "alone", "without MPI", RANK_VARIABLES, own=True)
"""Ranks that a launcher of tfhet numbered itself, and one process that is the only rank."""
