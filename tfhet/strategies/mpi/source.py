"""The sources of ranks that MPI's launchers start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tfhet.cluster import Place, Rank, env_number
from tfhet.strategies.mpi.lineage import first_gone, watched
from tfhet.strategies.mpi.toolkit import release
from tfhet.strategies.rank_source import RankSource


@dataclass(frozen=True)
class MpiSource(RankSource):
    """A launcher of MPI: what it runs under may die and leave the ranks running, which is watched."""

    async def gone(self, place: Place) -> str:
        line = watched(place.env, place.rank)
        if not line:
            return await super().gone(place)
        process = await first_gone(line)
        return f"{process.name}, process {process.pid}, by which it was started, is gone"

    def release(self, place: Place) -> None:
        release(place)


@dataclass(frozen=True)
class PmiSource(MpiSource):
    """A launcher that speaks PMI, which says nothing of local ranks where there is one rank."""

    def read(self, env: Mapping[str, str]) -> Rank | None:
        rank, size, *_ = self.variables
        if rank in env and env.get(size, "").strip() == "1":
            return Rank(env_number(env, rank), 1, 0, 1, self.name)
        return super().read(env)


MPI = MpiSource(
    "mpi",
    "mpirun",
    "started by mpirun",
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"),
)
"""Open MPI: mpirun(1), "Environment Variables"."""
PMI = PmiSource(
    "pmi", "pmi", "started by a PMI launcher", ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS")
)
"""MPICH's Hydra, and others that speak PMI."""
