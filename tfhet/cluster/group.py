"""Groups of equal hosts, and the cluster that they make."""

from __future__ import annotations

from dataclasses import dataclass

from tfhet.errors import ClusterError

HOMOGENEOUS_GROUP = "homogeneousCluster"
"""SageMaker's name for the only group of a job that names none."""


@dataclass(frozen=True)
class Group:
    """Hosts of one instance type under one name."""

    name: str
    hosts: tuple[str, ...]
    """Names, like `algo-1`, in the order of the job's description; the first one leads."""
    instance_type: str | None
    """Like `ml.c5.18xlarge`; None where there is none (a local run)."""

    @property
    def first(self) -> str:
        """The host that leads. Raises ClusterError when the group has no hosts."""
        if not self.hosts:
            raise ClusterError(f"group {self.name!r} has no hosts; give it at least one instance")
        return self.hosts[0]


@dataclass(frozen=True)
class Cluster:
    """All hosts of a job, by group."""

    groups: tuple[Group, ...]
    """In the order of the job's description; names are unique and no host is in two."""
    network_interface: str
    """Name of the interface between the hosts, like `eth0`."""

    @property
    def names(self) -> tuple[str, ...]:
        """The groups' names, in order."""
        return tuple(group.name for group in self.groups)

    @property
    def hosts(self) -> tuple[str, ...]:
        """Names of all hosts, group by group."""
        return tuple(host for group in self.groups for host in group.hosts)

    @property
    def is_heterogeneous(self) -> bool:
        """Whether there is more than one group. (Homogeneous SageMaker jobs describe one group too.)"""
        return len(self.groups) > 1

    def group(self, name: str) -> Group:
        """The group of that name. Raises ClusterError naming the groups that are there."""
        for group in self.groups:
            if group.name == name:
                return group
        raise ClusterError(f"no group {name!r} in this job; its groups: {self.describe()}")

    def describe(self) -> str:
        """The groups in one line for messages: `data_group (algo-1, algo-2), dnn_group (algo-3)`."""
        return ", ".join(f"{g.name} ({', '.join(g.hosts) or 'no hosts'})" for g in self.groups) or "none"
