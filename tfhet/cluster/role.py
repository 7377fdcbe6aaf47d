"""What a host is for: to deliver data, or to train."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from tfhet.cluster.group import Cluster, Group
from tfhet.cluster.identity import Identity
from tfhet.errors import ClusterError

DATA_GROUP = "data_group"
DNN_GROUP = "dnn_group"


class Role(str, Enum):
    """The two things that a host can be for."""

    DATA = "data"
    """Prepares examples; has no accelerator."""
    DNN = "dnn"
    """Trains; may prepare examples on the side."""


@dataclass(frozen=True)
class Roles:
    """Which group does what."""

    data: Group | None
    """None in a homogeneous job."""
    dnn: Group
    role_of_current_host: Role

    @property
    def data_hosts(self) -> tuple[str, ...]:
        """Names of the data hosts; empty in a homogeneous job."""
        return self.data.hosts if self.data else ()

    @property
    def dnn_hosts(self) -> tuple[str, ...]:
        return self.dnn.hosts


def roles(identity: Identity, data_group: str | None = None, dnn_group: str | None = None) -> Roles:
    """Gives every group its role: by the names told, else by the names `data_group` and `dnn_group`.

    With one group and nothing told, that group trains, whatever it is called, except `data_group`: a job with only
    that one has lost its dnn group. "" counts as not told (SageMaker passes None so).
    Raises ClusterError, naming the groups that are there, for a name that is not, a group with no hosts, the same
    group twice, and a group that would be left without a role.
    """
    cluster = identity.cluster
    data_group, dnn_group = data_group or None, dnn_group or None
    if data_group is not None and data_group == dnn_group:
        raise ClusterError(
            f"--data_group and --dnn_group both say {data_group!r}; they must differ. Groups: {cluster.describe()}"
        )
    if not cluster.is_heterogeneous and data_group is None:
        return _homogeneous(cluster, dnn_group)
    data = _find(cluster, data_group, DATA_GROUP, "--data_group")
    dnn = _find(cluster, dnn_group, DNN_GROUP, "--dnn_group")
    if data.name == dnn.name:
        raise ClusterError(f"group {data.name!r} cannot be both data and dnn group. Groups: {cluster.describe()}")
    idle = [group.name for group in cluster.groups if group.name not in (data.name, dnn.name) and group.hosts]
    if idle:
        raise ClusterError(
            f"group {idle[0]!r} has no role: {data.name!r} delivers data and {dnn.name!r} trains. "
            f"Take it out of the job, or name another one with --data_group or --dnn_group. "
            f"Groups: {cluster.describe()}"
        )
    for group in (data, dnn):
        if not group.hosts:
            raise ClusterError(f"group {group.name!r} has no hosts; give it at least one, or run without it")
    role = Role.DATA if identity.current_group == data.name else Role.DNN
    return Roles(data, dnn, role)


def _homogeneous(cluster: Cluster, dnn_group: str | None) -> Roles:
    if not cluster.groups:
        raise ClusterError("this job has no groups; it needs at least one host to train on")
    group = _find(cluster, dnn_group, DNN_GROUP, "--dnn_group") if dnn_group else cluster.groups[0]
    if dnn_group is None and group.name == DATA_GROUP:
        raise ClusterError(
            f"this job has no dnn group: its only group is {cluster.describe()}. Add a group {DNN_GROUP!r}, "
            f"or say --dnn_group {DATA_GROUP} to train on this one"
        )
    if not group.hosts:
        raise ClusterError(f"group {group.name!r} has no hosts; it needs at least one to train on")
    return Roles(None, group, Role.DNN)


def _find(cluster: Cluster, told: str | None, usual: str, argument: str) -> Group:
    name = told or usual
    if name in cluster.names:
        return cluster.group(name)
    why = f"{argument} says {told!r}, which this job does not have" if told else f"this job has no group {usual!r}"
    hint = f"say which group is meant with {argument} NAME"
    if not cluster.is_heterogeneous:
        hint = f"it is homogeneous: leave {argument} away, or give the job a second group"
    raise ClusterError(f"{why}; {hint}. Groups: {cluster.describe()}")
