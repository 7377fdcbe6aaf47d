"""The task of each group of hosts: to prepare data, to train, or a role of a strategy."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from tfhet.cluster.identity import Cluster, Group, Identity
from tfhet.errors import ClusterError


@dataclass(frozen=True)
class Role:
    """The task of the hosts of one group. `ROLES` are always known; a strategy may add others."""

    name: str
    """Like `data`: the group is called `data_group`, unless `--data_group` names another."""
    trains: bool = False

    @property
    def group(self) -> str:
        return f"{self.name}_group"


DATA = Role("data")
"""The hosts prepare examples; they have no accelerator."""
DNN = Role("dnn", trains=True)
"""The hosts train; they may prepare examples on the side."""
ROLES = (DATA, DNN)
DATA_GROUP, DNN_GROUP = DATA.group, DNN.group


@dataclass(frozen=True)
class Roles:
    groups: Mapping[str, Group]
    """The groups by the name of their role: always `dnn`, and `data` in a heterogeneous job."""
    current: Role

    @property
    def dnn(self) -> Group:
        return self.groups[DNN.name]

    @property
    def data_hosts(self) -> tuple[str, ...]:
        """Names of the data hosts; empty in a homogeneous job."""
        return self.hosts(DATA.name)

    @property
    def dnn_hosts(self) -> tuple[str, ...]:
        """Names of the hosts that train; the first one leads."""
        return self.dnn.hosts

    @property
    def other_hosts(self) -> tuple[str, ...]:
        """Names of all hosts that do not train."""
        return tuple(host for role, group in self.groups.items() if role != DNN.name for host in group.hosts)

    def hosts(self, role: str) -> tuple[str, ...]:
        """Names of the hosts of a role; empty if no group has it."""
        return self.groups[role].hosts if role in self.groups else ()

    def led_by_first(self, host: str, others: Role | None) -> Roles:
        """The roles, seen from `host`, if only the first dnn host trains and the others have the role `others`."""
        first, rest = self.dnn_hosts[:1], self.dnn_hosts[1:]
        if others is None or not rest:
            return self
        parts = {DNN.name: replace(self.dnn, hosts=first), others.name: replace(self.dnn, hosts=rest)}
        return Roles({**self.groups, **parts}, others if host in rest else self.current)

    def role_of(self, group: str) -> str | None:
        """Name of the role of a group, or None."""
        return next((role for role, one in self.groups.items() if one.name == group), None)


def roles(identity: Identity, names: Mapping[str, str] | None = None, known: Sequence[Role] = ROLES) -> Roles:
    """Assigns a role to every group.

    A job with one group trains on it, unless it is called `data_group`: such a job has lost its dnn group. If the dnn
    group is named and one other group is left, that group prepares data.

    Args:
        names: Names of groups by role; "" (SageMaker's None): the usual name, like `data_group`.
        known: Possible roles. Roles other than data and dnn count only if the job has their group.

    Raises ClusterError for a named group that does not exist, and a group with no hosts, two roles or no role.
    """
    cluster, names = identity.cluster, {role: name for role, name in (names or {}).items() if name}
    there = f"Groups: {cluster.describe()}"
    if not cluster.is_heterogeneous and not set(names) - {DNN.name}:
        return Roles({DNN.name: _only_group(cluster, names.get(DNN.name))}, DNN)
    further = [role for role in known if role not in ROLES and (role.name in names or role.group in cluster.names)]
    others = [name for name in cluster.names if name != names.get(DNN.name)]
    if DNN.name in names and DATA.name not in names and len(others) == 1 and not further:
        names[DATA.name] = others[0]
    has_data = DATA.group in cluster.names or DATA.name in names or not further
    needed = (*([DATA] if has_data else []), DNN, *further)
    found = {role.name: _find(cluster, names.get(role.name), role) for role in needed}
    for (role, group), (other, same) in itertools.combinations(found.items(), 2):
        if group.name == same.name:
            raise ClusterError(f"group {group.name!r} cannot be both {role} and {other} group. {there}")
    role_of = {group.name: role for role, group in found.items()}
    idle = [group.name for group in cluster.groups if group.name not in role_of and group.hosts]
    if idle:
        parts = " and ".join(f"{group.name!r} is the {role} group" for role, group in found.items())
        options = " or ".join(f"--{role}_group" for role in found)
        raise ClusterError(
            f"group {idle[0]!r} has no role: {parts}. "
            f"Take it out of the job, or name another one with {options}. {there}"
        )
    for group in found.values():
        if not group.hosts:
            raise ClusterError(f"group {group.name!r} has no hosts; give it at least one, or run without it")
    return Roles(found, next(role for role in (*ROLES, *further) if role.name == role_of[identity.current_group]))


def _only_group(cluster: Cluster, dnn_group: str | None) -> Group:
    if dnn_group:
        return _find(cluster, dnn_group, DNN)
    if cluster.groups[0].name == DATA.group:
        raise ClusterError(
            f"this job has no dnn group: its only group is {cluster.describe()}. Add a group {DNN.group!r}, "
            f"or say --dnn_group {DATA.group} to train on this one"
        )
    return cluster.groups[0]


def _find(cluster: Cluster, given: str | None, role: Role) -> Group:
    name, argument = given or role.group, f"--{role.name}_group"
    for group in cluster.groups:
        if group.name == name:
            return group
    why = f"{argument} says {given!r}, which this job does not have" if given else f"this job has no group {name!r}"
    hint = f"say which group is meant with {argument} NAME"
    if not cluster.is_heterogeneous:
        hint = f"it is homogeneous: omit {argument}, or give the job a second group"
    raise ClusterError(f"{why}; {hint}. Groups: {cluster.describe()}")
