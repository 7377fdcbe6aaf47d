"""Which of the training processes a process is: `Rank(1, 4, 1, 2, "tfhet")` is rank 1 of 4, the second on its host.

The variables by which a launcher of another make gives a process its rank belong to `tfhet.strategies`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tfhet.errors import ClusterError

VARIABLES = ("TFHET_RANK", "TFHET_SIZE", "TFHET_LOCAL_RANK", "TFHET_LOCAL_SIZE")
"""The variables by which a launcher of tfhet gives a launcher that it starts a rank."""


@dataclass(frozen=True)
class Rank:
    """One training process among all. Raises ClusterError when made from numbers that contradict each other."""

    rank: int
    """0 <= rank < size."""
    size: int
    """Number of training processes in the job."""
    local_rank: int
    """0 <= local_rank < local_size; local rank 0 does what a host does once."""
    local_size: int
    """Number of training processes on this host."""
    source: str
    """Name of the source of these numbers (`tfhet`, or a `RankSource`), or words for it in messages."""

    def __post_init__(self) -> None:
        in_range = 0 <= self.rank < self.size and 0 <= self.local_rank < self.local_size <= self.size
        if not in_range or self.local_rank > self.rank:
            raise ClusterError(
                f"the ranks given by {self.source} contradict each other: rank {self.rank} of {self.size}, "
                f"local rank {self.local_rank} of {self.local_size}"
            )

    def to_env(self) -> dict[str, str]:
        """The variables by which a launcher of tfhet gives this rank to a launcher that it starts."""
        numbers = (self.rank, self.size, self.local_rank, self.local_size)
        return {name: str(number) for name, number in zip(VARIABLES, numbers, strict=True)}

    @classmethod
    def read(cls, env: Mapping[str, str], variables: Sequence[str], source: str) -> Rank:
        """The rank that four variables give: rank, size, local rank, local size. Raises ClusterError for variables
        that are missing, no numbers, or contradictory."""
        rank, size, local_rank, local_size = (number(env, name) for name in variables)
        return cls(rank, size, local_rank, local_size, source)


def number(env: Mapping[str, str], name: str) -> int:
    """The number, 0 or more, that a variable holds. Raises ClusterError."""
    text = env.get(name)
    if text is None:
        raise ClusterError(f"{name} is not set, although other variables of the same launcher are")
    if not (text.isascii() and text.strip().isdigit() and len(text) < 12):
        raise ClusterError(f"{name}: expected a number, got {text[:40]!r}")
    return int(text)
