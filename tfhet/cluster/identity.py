"""This host, its group and its cluster: from resourceconfig.json or the variable `SM_RESOURCE_CONFIG`.

Forms of SageMaker's description seen: heterogeneous and homogeneous jobs of today carry `current_group_name` and
`instance_groups`; the file that the SageMaker training toolkit writes for itself says `current_instance_group`; old
homogeneous jobs carry `hosts` only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tfhet.cluster.environment import parse_json
from tfhet.cluster.paths import host_paths
from tfhet.errors import ClusterError, shown

HOMOGENEOUS_GROUP = "homogeneousCluster"
"""SageMaker's name for the only group of a job that names none."""
_HOST_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9])?")


@dataclass(frozen=True)
class Group:
    """Hosts of one instance type under one name."""

    name: str
    hosts: tuple[str, ...]
    """Names, like `algo-1`, in the order of the job's description; the first one leads."""
    instance_type: str | None
    """Like `ml.c5.18xlarge`; None where there is none (a local run)."""


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
    """This host's identity, from resourceconfig.json, which SageMaker writes on every host, or where there is none from
    `SM_RESOURCE_CONFIG`, which its toolkits export. Programs that hand their environment on to other hosts give all of
    them that of the first one, so the file comes first, and one that is wrong is an error, not a reason to look
    elsewhere. Raises ClusterError, also without either."""
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


def describe(document: object, where: str) -> Identity:
    """Reads a description in the form of resourceconfig.json, as parsed from JSON. Raises ClusterError, naming `where`,
    for anything that is not a sound description: a missing or unknown current host or group, a host in two groups or in
    none, two groups of one name, or values of the wrong type."""
    if not isinstance(document, dict):
        raise ClusterError(f"{where}: expected a JSON object, got {shown(document)}")
    listed = _hosts(document["hosts"], f"{where}: 'hosts'") if document.get("hosts") is not None else None
    current_host = _host(document.get("current_host"), f"{where}: 'current_host'")
    groups = _groups(document, listed, where)
    interface = _text(document.get("network_interface_name") or "eth0", f"{where}: 'network_interface_name'", "eth0")
    cluster = Cluster(groups, interface)
    _check_membership(cluster, listed, where)
    found = [group.name for group in groups if current_host in group.hosts]
    if not found:
        raise ClusterError(f"{where}: current host {current_host!r} is in no group; groups: {cluster.describe()}")
    given = _current_group(document)
    if given is not None and given != found[0]:
        raise ClusterError(
            f"{where}: says that host {current_host!r} is in group {shown(given)}, but lists it in {found[0]!r}; "
            f"groups: {cluster.describe()}"
        )
    return Identity(current_host, found[0], cluster)


def _groups(document: Mapping[str, Any], listed: tuple[str, ...] | None, where: str) -> tuple[Group, ...]:
    raw = document.get("instance_groups")
    if raw is None or raw == []:
        if not listed:
            raise ClusterError(f"{where}: names no hosts: needs 'instance_groups', or 'hosts' for a homogeneous job")
        given = _current_group(document)
        name = HOMOGENEOUS_GROUP if given is None else _text(given, f"{where}: 'current_group_name'", "dnn_group")
        return (Group(name, listed, _instance_type(document.get("current_instance_type"), where)),)
    if not isinstance(raw, list):
        raise ClusterError(f"{where}: 'instance_groups' must be a list, got {shown(raw)}")
    groups = []
    for index, entry in enumerate(raw):
        here = f"{where}: instance_groups[{index}]"
        if not isinstance(entry, dict):
            raise ClusterError(f"{here} must be an object, got {shown(entry)}")
        name = _text(entry.get("instance_group_name"), f"{here}: 'instance_group_name'", "dnn_group")
        hosts = _hosts(entry.get("hosts"), f"{here}: 'hosts'")
        groups.append(Group(name, hosts, _instance_type(entry.get("instance_type"), here)))
    return tuple(groups)


def _check_membership(cluster: Cluster, listed: tuple[str, ...] | None, where: str) -> None:
    owner: dict[str, str] = {}
    for index, group in enumerate(cluster.groups):
        if group.name in cluster.names[:index]:
            raise ClusterError(f"{where}: two groups are called {group.name!r}")
        for host in group.hosts:
            if host in owner:
                raise ClusterError(f"{where}: host {host!r} is in two groups, {owner[host]!r} and {group.name!r}")
            owner[host] = group.name
    if listed is not None and set(listed) != set(owner):
        odd = sorted(set(listed) ^ set(owner))
        raise ClusterError(f"{where}: 'hosts' and 'instance_groups' disagree about {', '.join(odd)}")


def _current_group(document: Mapping[str, Any]) -> object:
    return document.get("current_group_name", document.get("current_instance_group"))


def _hosts(value: object, where: str) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ClusterError(f"{where} must be a list of host names, got {shown(value)}")
    names = tuple(_host(name, where) for name in value)
    if len(set(names)) != len(names):
        raise ClusterError(f"{where} names a host twice: {', '.join(names)}")
    return names


def _host(value: object, where: str) -> str:
    if not isinstance(value, str) or not _HOST_NAME.fullmatch(value):
        raise ClusterError(f"{where}: expected a host name, got {shown(value)}")
    return value


def _instance_type(value: object, where: str) -> str | None:
    if value in (None, "", "local"):  # the toolkit says "local" where a document has no type
        return None
    return _text(value, f"{where}: 'instance_type'", "ml.c5.18xlarge")


def _text(value: object, where: str, example: str) -> str:
    if not isinstance(value, str) or not value.strip() or not value.isprintable() or len(value) > 256:
        raise ClusterError(f"{where}: expected text like {example!r}, got {shown(value)}")
    return value
