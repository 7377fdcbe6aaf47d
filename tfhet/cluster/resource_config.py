"""Reads SageMaker's description of a cluster, the document in `input/config/resourceconfig.json`.

Forms seen: heterogeneous and homogeneous jobs of today carry `current_group_name` and `instance_groups`; the file that
the SageMaker training toolkit writes for itself says `current_instance_group`; old homogeneous jobs carry `hosts` only.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from tfhet.cluster.group import HOMOGENEOUS_GROUP, Cluster, Group
from tfhet.errors import ClusterError

DEFAULT_INTERFACE = "eth0"
_HOST_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9])?")
_NO_INSTANCE_TYPE = ("", "local")  # the toolkit says "local" where a document has no type


@dataclass(frozen=True)
class Description:
    """What a document says: who I am and who is there. `current_group` is one of the cluster's and holds the host."""

    current_host: str
    current_group: str
    cluster: Cluster


def parse(text: str | bytes, where: str) -> object:
    """The JSON value in `text`. Raises ClusterError naming `where` when it is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ClusterError(f"{where}: not JSON ({_short(str(error))})") from error


def describe(document: object, where: str) -> Description:
    """Reads a description in the form of resourceconfig.json, as parsed from JSON.

    Raises ClusterError, naming `where`, for anything that is not a sound description: a missing or unknown current
    host or group, a host in two groups or in none, two groups of one name, or values of the wrong type.
    """
    if not isinstance(document, dict):
        raise ClusterError(f"{where}: expected a JSON object, got {_short(document)}")
    listed = _hosts(document["hosts"], f"{where}: 'hosts'") if document.get("hosts") is not None else None
    current_host = _host(document.get("current_host"), f"{where}: 'current_host'")
    groups = _groups(document, listed, where)
    cluster = Cluster(groups, _interface(document.get("network_interface_name"), where))
    _check_membership(cluster, listed, where)
    found = [group.name for group in groups if current_host in group.hosts]
    if not found:
        raise ClusterError(f"{where}: current host {current_host!r} is in no group; groups: {cluster.describe()}")
    told = document.get("current_group_name", document.get("current_instance_group"))
    if told is not None and told != found[0]:
        raise ClusterError(
            f"{where}: says that host {current_host!r} is in group {_short(told)}, but lists it in {found[0]!r}; "
            f"groups: {cluster.describe()}"
        )
    return Description(current_host, found[0], cluster)


def _groups(document: Mapping[str, object], listed: tuple[str, ...] | None, where: str) -> tuple[Group, ...]:
    raw = document.get("instance_groups")
    if raw is None or raw == []:
        if not listed:
            raise ClusterError(f"{where}: names no hosts: needs 'instance_groups', or 'hosts' for a homogeneous job")
        told = document.get("current_group_name", document.get("current_instance_group"))
        name = HOMOGENEOUS_GROUP if told is None else _group_name(told, f"{where}: 'current_group_name'")
        return (Group(name, listed, _instance_type(document.get("current_instance_type"), where)),)
    if not isinstance(raw, list):
        raise ClusterError(f"{where}: 'instance_groups' must be a list, got {_short(raw)}")
    groups = []
    for index, entry in enumerate(raw):
        here = f"{where}: instance_groups[{index}]"
        if not isinstance(entry, dict):
            raise ClusterError(f"{here} must be an object, got {_short(entry)}")
        groups.append(
            Group(
                _group_name(entry.get("instance_group_name"), f"{here}: 'instance_group_name'"),
                _hosts(entry.get("hosts"), f"{here}: 'hosts'"),
                _instance_type(entry.get("instance_type"), here),
            )
        )
    return tuple(groups)


def _check_membership(cluster: Cluster, listed: tuple[str, ...] | None, where: str) -> None:
    repeated = sorted({name for name in cluster.names if cluster.names.count(name) > 1})
    if repeated:
        raise ClusterError(f"{where}: two groups are called {repeated[0]!r}")
    owner: dict[str, str] = {}
    for host in cluster.hosts:
        if host.name in owner:
            raise ClusterError(f"{where}: host {host.name!r} is in two groups, {owner[host.name]!r} and {host.group!r}")
        owner[host.name] = host.group
    if listed is not None and set(listed) != set(owner):
        odd = sorted(set(listed) ^ set(owner))
        raise ClusterError(f"{where}: 'hosts' and 'instance_groups' disagree about {', '.join(odd)}")


def _hosts(value: object, where: str) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ClusterError(f"{where} must be a list of host names, got {_short(value)}")
    names = tuple(_host(name, where) for name in value)
    if len(set(names)) != len(names):
        raise ClusterError(f"{where} names a host twice: {', '.join(names)}")
    return names


def _host(value: object, where: str) -> str:
    if not isinstance(value, str) or not _HOST_NAME.fullmatch(value):
        raise ClusterError(f"{where}: expected a host name, got {_short(value)}")
    return value


def _group_name(value: object, where: str) -> str:
    if not isinstance(value, str) or not value.strip() or not value.isprintable() or len(value) > 256:
        raise ClusterError(f"{where}: expected the name of a group, got {_short(value)}")
    return value


def _instance_type(value: object, where: str) -> str | None:
    if value is None or value in _NO_INSTANCE_TYPE:
        return None
    if not isinstance(value, str) or not value.isprintable() or len(value) > 64:
        raise ClusterError(f"{where}: 'instance_type': expected text like 'ml.c5.18xlarge', got {_short(value)}")
    return value


def _interface(value: object, where: str) -> str:
    if value is None or value == "":
        return DEFAULT_INTERFACE
    if not isinstance(value, str) or not value.isprintable() or len(value) > 64 or set(value) & set(" /"):
        raise ClusterError(f"{where}: 'network_interface_name': expected text like 'eth0', got {_short(value)}")
    return value


def _short(value: object) -> str:
    text = value if isinstance(value, str) else type(value).__name__ if isinstance(value, (dict, list)) else str(value)
    text = ascii(text) if isinstance(value, str) else text
    return text if len(text) <= 80 else text[:77] + "..."
