"""Which of the training processes this one is, as the launcher that started it says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tfhet.errors import ClusterError

# Open MPI (mpirun(1), "Environment Variables"), Horovod's Gloo launcher (horovod/runner/gloo_run.py), a launcher that
# starts others (tfhet/launch/starter.py), and MPICH's Hydra (PMI_*, MPI_LOCAL*).
_SOURCES: Mapping[str, tuple[str, str, str, str]] = {
    "mpi": (
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
    ),
    "horovod": ("HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_LOCAL_RANK", "HOROVOD_LOCAL_SIZE"),
    "tfhet": ("TFHET_RANK", "TFHET_SIZE", "TFHET_LOCAL_RANK", "TFHET_LOCAL_SIZE"),
    "pmi": ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
}
_STARTERS: Mapping[str, str] = {"mpi": "mpirun", "horovod": "horovodrun", "pmi": "pmi"}


@dataclass(frozen=True)
class Rank:
    """One training process among all. Raises ClusterError when made from numbers that contradict each other."""

    rank: int
    """0 <= rank < size."""
    size: int
    """Number of training processes in the job."""
    local_rank: int
    """0 <= local_rank < local_size; 0 does what a host does once."""
    local_size: int
    """Number of training processes on this host."""
    source: str
    """Who says so: `mpi`, `horovod`, `tfhet`, `pmi`, or nobody, in other words."""

    def __post_init__(self) -> None:
        sound = 0 <= self.rank < self.size and 0 <= self.local_rank < self.local_size <= self.size
        if not sound or self.local_rank > self.rank:
            raise ClusterError(
                f"the ranks given by {self.source} contradict each other: rank {self.rank} of {self.size}, "
                f"local rank {self.local_rank} of {self.local_size}"
            )

    @property
    def by(self) -> str:
        """Who started the ranks: `mpirun`, `horovodrun` (or who sets its variables), `pmi`, or `alone`: tfhet did."""
        return _STARTERS.get(self.source, "alone")

    def to_env(self) -> dict[str, str]:
        """The variables by which a launcher of ours gives a launcher that it starts this rank."""
        numbers = (self.rank, self.size, self.local_rank, self.local_size)
        return {name: str(number) for name, number in zip(_SOURCES["tfhet"], numbers, strict=True)}

    @classmethod
    def from_env(cls, env: Mapping[str, str]) -> Rank | None:
        """The rank that mpirun, horovodrun, tfhet or another PMI launcher gave this process; None when none did.

        Raises ClusterError for variables that are not numbers, incomplete, or contradictory.
        """
        found = [rank for source in _SOURCES if (rank := cls._read(env, source)) is not None]
        for other in found[1:]:
            if (other.rank, other.size) != (found[0].rank, found[0].size):
                raise ClusterError(
                    f"two launchers disagree: {found[0].source} says rank {found[0].rank} of {found[0].size}, "
                    f"{other.source} rank {other.rank} of {other.size}; unset the variables of one "
                    f"({', '.join(_SOURCES[other.source])})"
                )
        return found[0] if found else None

    @classmethod
    def _read(cls, env: Mapping[str, str], source: str) -> Rank | None:
        names = _SOURCES[source]
        if names[0] not in env:
            return None
        if source == "pmi" and env.get(names[1], "").strip() == "1":
            return cls(_number(env, names[0]), 1, 0, 1, source)
        rank, size, local_rank, local_size = (_number(env, name) for name in names)
        return cls(rank, size, local_rank, local_size, source)


def _number(env: Mapping[str, str], name: str) -> int:
    text = env.get(name)
    if text is None:
        raise ClusterError(f"{name} is not set, although other variables of the same launcher are")
    if not (text.isascii() and text.strip().isdigit() and len(text) < 12):
        raise ClusterError(f"{name}: expected a number, got {text[:40]!r}")
    return int(text)
