"""The strategies by name, also of third parties (entry points of `tfhet.strategies`), and the sources of ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tfhet.cluster import Rank, Role
from tfhet.errors import ClusterError
from tfhet.registry import Registry
from tfhet.strategies.mpi import MPI
from tfhet.strategies.strategy import OWN, RankSource, Strategy

AUTO = "auto"
SHIPPED = {
    "solo": "tfhet.strategies.solo:SOLO",
    "horovod": "tfhet.strategies.horovod:HOROVOD",
    "torch": "tfhet.strategies.torch:TORCH",
    "multi_worker": "tfhet.strategies.tensorflow:MULTI_WORKER",
    "mirrored": "tfhet.strategies.solo:MIRRORED",
    "parameter_server": "tfhet.strategies.tensorflow:PARAMETER_SERVER",
    "ray": "tfhet.strategies.ray:RAY",
}
STRATEGIES: Registry[Strategy] = Registry("strategy", "tfhet.strategies", SHIPPED, (AUTO,))
names, get = STRATEGIES.names, STRATEGIES.get


def chosen(name: str, size: int, source: RankSource | None = None) -> Strategy:
    """The strategy with that name; `auto`: of the source of the ranks, else solo for one rank, Horovod for several."""
    if name == AUTO:
        name = (source.strategy if source else "") or ("solo" if size <= 1 else "horovod")
    return get(name)


def translated(argv: Sequence[str]) -> list[str]:
    """`argv` with the arguments of other launchers translated to tfhet's, by the strategies that tfhet ships."""
    for name in SHIPPED:
        argv = get(name).translated(argv)
    return list(argv)


def roles() -> tuple[Role, ...]:
    """The roles that tfhet's own strategies add to data and dnn."""
    return tuple(dict.fromkeys(role for name in SHIPPED for role in get(name).roles))


def sources(strategy: str = AUTO) -> Mapping[str, RankSource]:
    """All sources of ranks by name, in the order in which they are tried. Of third parties: only of `strategy`."""
    loaded = (get(name) for name in names() if name in (*SHIPPED, strategy))
    return {one.name: one for one in (MPI, *(source for each in loaded for source in each.sources), OWN)}


def rank_of(env: Mapping[str, str], strategy: str = AUTO) -> Rank | None:
    """The rank of this process, or None. strategy: the job's. Raises ClusterError for wrong, incomplete or
    contradictory variables, and if two sources differ."""
    every = sources(strategy)
    found = [rank for source in every.values() if (rank := source.read(env)) is not None]
    for other in found[1:]:
        if (other.rank, other.size) != (found[0].rank, found[0].size):
            raise ClusterError(
                f"two launchers disagree: {found[0].source} says rank {found[0].rank} of {found[0].size}, "
                f"{other.source} rank {other.rank} of {other.size}; unset the variables of one "
                f"({', '.join(every[other.source].variables)})"
            )
    return found[0] if found else None


def source_of(rank: Rank, strategy: str = AUTO) -> RankSource:
    """The source of a rank; by default tfhet's own."""
    return sources(strategy).get(rank.source, OWN)
