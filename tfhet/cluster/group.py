"""Groups of equal hosts, and the cluster that they make."""

from __future__ import annotations

from dataclasses import dataclass

from tfhet.cluster.host import Host
from tfhet.errors import ClusterError

HOMOGENEOUS_GROUP = "homogeneousCluster"
"""What SageMaker calls the one group of a job that names none."""


@dataclass(frozen=True)
class Group:
    """Hosts of one instance type under one name."""

    name: str
    hosts: tuple[str, ...]
    """Names in the order of the job's description; the first one leads."""
    instance_type: str | None
    """Like `ml.c5.18xlarge`; None where there is none (a local run)."""

    @property
    def first(self) -> str:
        """The host that does what a group does once. Raises ClusterError when the group has no hosts."""
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
    def hosts(self) -> tuple[Host, ...]:
        """Every host, group by group."""
        return tuple(Host(name, g.name, g.instance_type) for g in self.groups for name in g.hosts)

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

    def host(self, name: str) -> Host:
        """The host of that name. Raises ClusterError naming the hosts that are there."""
        for host in self.hosts:
            if host.name == name:
                return host
        raise ClusterError(f"no host {name!r} in this job; its groups: {self.describe()}")

    def group_of(self, host: str) -> Group:
        """The group that the host of that name belongs to. Raises ClusterError when there is no such host."""
        return self.group(self.host(host).group)

    def describe(self) -> str:
        """The groups in one line for messages: `data_group (algo-1, algo-2), dnn_group (algo-3)`."""
        return ", ".join(f"{g.name} ({', '.join(g.hosts) or 'no hosts'})" for g in self.groups) or "none"
