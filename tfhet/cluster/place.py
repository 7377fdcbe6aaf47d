"""The place of one launcher in its job: its host, role and rank, and the addresses of the other hosts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from tfhet.cluster.address import LISTEN_VARIABLE, is_loopback, listening, resolve
from tfhet.cluster.identity import Identity
from tfhet.cluster.paths import HostPaths
from tfhet.cluster.ports import Ports
from tfhet.cluster.role import Roles
from tfhet.errors import ClusterError

RANK_VARIABLES = ("TFHET_RANK", "TFHET_SIZE", "TFHET_LOCAL_RANK", "TFHET_LOCAL_SIZE")
"""The variables by which a launcher of tfhet gives a launcher that it starts a rank."""


@dataclass(frozen=True)
class Rank:
    """One training process among all. Raises ClusterError for contradictory numbers."""

    rank: int
    size: int
    local_rank: int
    """0 <= local_rank < local_size; local rank 0 does the work that a host does once."""
    local_size: int
    source: str
    """Name of the source of these numbers (`tfhet`, or a `RankSource`), or a description of it."""

    def __post_init__(self) -> None:
        in_range = 0 <= self.rank < self.size and 0 <= self.local_rank < self.local_size <= self.size
        if not in_range or self.local_rank > self.rank:
            raise ClusterError(
                f"the ranks given by {self.source} contradict each other: rank {self.rank} of {self.size}, "
                f"local rank {self.local_rank} of {self.local_size}"
            )

    def to_env(self) -> dict[str, str]:
        """The variables with which a launcher passes this rank to a launcher that it starts."""
        numbers = (self.rank, self.size, self.local_rank, self.local_size)
        return dict(zip(RANK_VARIABLES, map(str, numbers), strict=True))

    @classmethod
    def read(cls, env: Mapping[str, str], variables: Sequence[str], source: str) -> Rank:
        """Reads a rank from four variables, in the order of the fields. Raises ClusterError for a variable that is
        missing or not a number, and for contradictory numbers."""
        rank, size, local_rank, local_size = (env_number(env, name) for name in variables)
        return cls(rank, size, local_rank, local_size, source)


def env_number(env: Mapping[str, str], name: str) -> int:
    """The number, 0 or more, in a variable. Raises ClusterError."""
    text = env.get(name, "")
    if not (text.isascii() and text.strip().isdigit() and len(text) < 12):
        raise ClusterError(f"{name}: expected a number, got {text[:40]!r}")
    return int(text.strip())  # strip() removes more than int() does


@dataclass(frozen=True)
class Place:
    identity: Identity
    roles: Roles
    rank: Rank | None
    """None on a host that does not train."""
    ports: Ports
    paths: HostPaths
    env: Mapping[str, str]

    @property
    def host(self) -> str:
        return self.identity.current_host

    @property
    def is_leader(self) -> bool:
        """Whether this launcher leads the job, as the launcher of rank 0."""
        return self.rank is not None and self.rank.rank == 0

    @property
    def leads_host(self) -> bool:
        """Whether this launcher does the work that a host does once."""
        return self.rank is None or self.rank.local_rank == 0

    @property
    def member(self) -> str:
        """Name of this launcher on the link: the host's, or `rank-N`."""
        return self.host if self.rank is None else f"rank-{self.rank.rank}"

    @property
    def label(self) -> str:
        """Name of this launcher in the log: the host's, or `HOST/N` for rank N."""
        return self.host if self.rank is None else f"{self.host}/{self.rank.rank}"

    @property
    def size(self) -> int:
        """Number of ranks; 0 on a host that does not train, because it does not know the number."""
        return self.rank.size if self.rank else 0

    @property
    def local_size(self) -> int:
        return self.rank.local_size if self.rank else 0

    @property
    def followers(self) -> set[str]:
        """The other members of the link, in the leader."""
        return {*self.roles.other_hosts, *(f"rank-{rank}" for rank in range(1, self.size))}

    @property
    def leader_address(self) -> str:
        """Address of the leader's host: rank 0 is on the first host that trains."""
        return self.address(self.roles.dnn_hosts[0])

    @property
    def is_alone(self) -> bool:
        """Whether the job has no other host."""
        return len({*self.roles.other_hosts, *self.roles.dnn_hosts}) == 1

    @property
    def is_on_one_machine(self) -> bool:
        """Whether only this machine reaches the launchers: on one host, or on hosts with loopback addresses."""
        hosts, given = (*self.roles.other_hosts, *self.roles.dnn_hosts), self.env.get(LISTEN_VARIABLE)
        return is_loopback(given or "::1") and (self.is_alone or all(is_loopback(self.address(host)) for host in hosts))

    @property
    def link_address(self) -> str:
        """The leader's address for the launchers: loopback if all are on one host and `TFHET_LISTEN` is not set."""
        return "127.0.0.1" if self.is_alone and not self.env.get(LISTEN_VARIABLE) else self.leader_address

    @property
    def mode(self) -> Literal["homogeneous", "heterogeneous"]:
        """`heterogeneous` where hosts have different roles, else `homogeneous`."""
        return "heterogeneous" if self.roles.other_hosts else "homogeneous"

    def address(self, host: str) -> str:
        """The address at which every host of the job reaches `host`. Raises ClusterError and UsageError."""
        return resolve(host, self.env, self.host)

    def listening(self, address: str) -> str:
        """The IP address at which this host listens; the others reach it at `address`. Raises UsageError."""
        return listening(address, self.env, is_alone=self.is_alone)
