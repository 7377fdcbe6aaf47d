"""The place of one launcher in its job: its host, role and rank, and how it reaches the others.

    place = Place(identity, roles, rank, ports, paths, env)
    place.is_leader      # whether the launcher of rank 0 is this one
    place.address("algo-2")

Every launcher of a job draws the same picture, each from its own side.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tfhet.cluster.address import Ports, resolve
from tfhet.cluster.identity import Identity
from tfhet.cluster.paths import HostPaths
from tfhet.cluster.rank import Rank
from tfhet.cluster.role import Roles


@dataclass(frozen=True)
class Place:
    """Which host, role and rank a launcher has."""

    identity: Identity
    roles: Roles
    rank: Rank | None
    """None on a host that does not train."""
    ports: Ports
    paths: HostPaths
    env: Mapping[str, str]

    @property
    def host(self) -> str:
        """Name of this host."""
        return self.identity.current_host

    @property
    def is_leader(self) -> bool:
        """Whether this launcher leads the job: it is the one of rank 0."""
        return self.rank is not None and self.rank.rank == 0

    @property
    def leads_host(self) -> bool:
        """Whether this launcher does what a host does once."""
        return self.rank is None or self.rank.local_rank == 0

    @property
    def member(self) -> str:
        """Name of this launcher on the link: the host's, or `rank-N`."""
        return self.host if self.rank is None else f"rank-{self.rank.rank}"

    @property
    def label(self) -> str:
        """What the lines of this launcher in the log begin with."""
        return self.host if self.rank is None else f"{self.host}/{self.rank.rank}"

    @property
    def size(self) -> int:
        """Number of ranks; 0 on a host that does not train, which does not know it."""
        return self.rank.size if self.rank else 0

    @property
    def local_size(self) -> int:
        """Number of ranks of this host."""
        return self.rank.local_size if self.rank else 0

    @property
    def followers(self) -> set[str]:
        """The members of the link but the leader, as the leader knows them."""
        return {*self.roles.other_hosts, *(f"rank-{rank}" for rank in range(1, self.size))}

    @property
    def leader_address(self) -> str:
        """Address of the leader's host: rank 0 is on the first host that trains."""
        return self.address(self.roles.dnn_hosts[0])

    @property
    def mode(self) -> str:
        """`heterogeneous` where hosts have different roles, else `homogeneous`."""
        return "heterogeneous" if self.roles.other_hosts else "homogeneous"

    def address(self, host: str) -> str:
        """The address at which every host of the job reaches `host`. Raises ClusterError and UsageError."""
        return resolve(host, self.env, self.host)
