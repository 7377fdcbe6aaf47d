"""This host, its group and its cluster: from resourceconfig.json or the variable `SM_RESOURCE_CONFIG`.

Jobs of today have `current_group_name` and `instance_groups`; the file that the SageMaker training toolkit writes for
itself has `current_instance_group`; old homogeneous jobs have `hosts` only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import msgspec
from msgspec import Meta

from tfhet.cluster.environment import parse_json
from tfhet.cluster.paths import host_paths
from tfhet.errors import ClusterError
from tfhet.schema import from_json

HOMOGENEOUS_GROUP = "homogeneousCluster"
"""SageMaker's name for the only group of a job that names none."""
_Host = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9])?\Z")]
_Text = Annotated[str, Meta(pattern=r"\A(?=.*\S)[^\x00-\x1f\x7f-\x9f\ud800-\udfff]{1,256}\Z")]


class Group(msgspec.Struct, frozen=True, rename={"name": "instance_group_name"}):
    """Hosts of one instance type under one name."""

    name: _Text
    hosts: tuple[_Host, ...]
    """Names, like `algo-1`, in the order of the job's description; the first one leads."""
    instance_type: str | None = None
    """Like `ml.c5.18xlarge`; None if there is none (a local run), for which SageMaker's toolkit writes "local"."""

    def __post_init__(self) -> None:
        if self.instance_type in ("", "local"):
            msgspec.structs.force_setattr(self, "instance_type", None)


@dataclass(frozen=True)
class Cluster:
    """All hosts of a job, by group."""

    groups: tuple[Group, ...]
    """In the order of the job's description; names are unique and no host is in two."""
    network_interface: str
    """Name of the interface between the hosts, like `eth0`."""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(group.name for group in self.groups)

    @property
    def is_heterogeneous(self) -> bool:
        """Whether there is more than one group. (Homogeneous SageMaker jobs describe one group too.)"""
        return len(self.groups) > 1

    def describe(self) -> str:
        """The groups in one line for messages: `data_group (algo-1, algo-2), dnn_group (algo-3)`."""
        return ", ".join(f"{g.name} ({', '.join(g.hosts) or 'no hosts'})" for g in self.groups) or "none"


@dataclass(frozen=True)
class Identity:
    """This host and its cluster. Every reader returns the same value for the same job."""

    current_host: str
    current_group: str
    cluster: Cluster


def identify(env: Mapping[str, str]) -> Identity:
    """This host's identity, from resourceconfig.json, or if there is none from `SM_RESOURCE_CONFIG`. Programs that hand
    their environment on give all hosts the first one's, so the file comes first. Raises ClusterError."""
    path = host_paths(env).resource_config
    text: str | bytes
    try:
        text, where = path.read_bytes(), str(path)
    except (FileNotFoundError, NotADirectoryError):
        text, where = env.get("SM_RESOURCE_CONFIG", ""), "SM_RESOURCE_CONFIG"
        if not text:
            raise ClusterError(
                f"nothing says which hosts belong to this job: {path} does not exist and {where} is not set; "
                "set SAGEMAKER_BASE_DIR to the directory that holds input/config, or run under `tfhet simulate`"
            ) from None
    except (OSError, ValueError) as error:
        raise ClusterError(f"{path}: cannot be read ({getattr(error, 'strerror', error)})") from error
    return describe(parse_json(text, where), where)


@dataclass(frozen=True)
class _Description:
    """The content of resourceconfig.json."""

    current_host: _Host
    hosts: tuple[_Host, ...] | None = None
    instance_groups: tuple[Group, ...] | None = None
    current_group_name: _Text | None = None
    current_instance_group: _Text | None = None
    current_instance_type: str | None = None
    network_interface_name: Annotated[str, Meta(pattern=r"\A[!-~]{0,256}\Z")] | None = None

    @property
    def group(self) -> str | None:
        return self.current_group_name or self.current_instance_group

    @property
    def groups(self) -> tuple[Group, ...]:
        only = Group(self.group or HOMOGENEOUS_GROUP, self.hosts or (), self.current_instance_type)
        return self.instance_groups or ((only,) if self.hosts else ())


def describe(document: object, where: str) -> Identity:
    """Reads a description in the form of resourceconfig.json, as parsed from JSON. Raises ClusterError, naming `where`,
    for anything that is not a sound description: a missing or unknown current host or group, a host in two groups or in
    none, two groups of one name, or values of the wrong type."""
    found = from_json(_Description, document, where, is_strict=True, error=ClusterError)
    cluster = Cluster(found.groups, found.network_interface_name or "eth0")
    if not cluster.groups:
        raise ClusterError(f"{where}: names no hosts: needs 'instance_groups', or 'hosts' for a homogeneous job")
    owner: dict[str, str] = {}
    for index, group in enumerate(cluster.groups):
        if group.name in cluster.names[:index]:
            raise ClusterError(f"{where}: two groups are called {group.name!r}")
        for host in group.hosts:
            if host in owner:
                raise ClusterError(f"{where}: host {host!r} is listed twice, in {owner[host]!r} and {group.name!r}")
            owner[host] = group.name
    if found.hosts is not None and sorted(found.hosts) != sorted(owner):
        odd = sorted(set(found.hosts) ^ set(owner)) or found.hosts
        raise ClusterError(f"{where}: 'hosts' and 'instance_groups' disagree about {', '.join(odd)}")
    current = owner.get(found.current_host)
    if current is None or found.group not in (None, current):
        why = "is in no group" if current is None else f"is in group {found.group!r}, but listed in {current!r}"
        raise ClusterError(f"{where}: current host {found.current_host!r} {why}; groups: {cluster.describe()}")
    return Identity(found.current_host, current, cluster)
