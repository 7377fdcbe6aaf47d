"""Which host of a training job is in which group: SageMaker does not tell, the launcher on the host does."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from tfhet.catalogue import InstanceGroup
from tfhet.messages import HostLine


def placed(groups: Sequence[InstanceGroup], told: Mapping[str, str], seen: Collection[str] = ()) -> dict[str, str]:
    """The group of each host that is known, by host.

    told: as launchers said. seen: all hosts that there are. Where a single group lacks hosts, the others are its.
    """
    names = {group.name for group in groups}
    found = {host: group for host, group in told.items() if group in names}
    lacking = [group for group in groups if sum(each == group.name for each in found.values()) < group.count]
    if len(groups) == 1 or len(lacking) == 1:
        only = lacking[0].name if lacking else groups[0].name
        found.update({host: only for host in seen if host not in found})
    return found


def cluster_of(
    groups: Sequence[InstanceGroup], told: Mapping[str, HostLine], seen: Collection[str] = ()
) -> dict[str, dict[str, Any]]:
    """As `RunSummary.cluster` holds it. Hosts of which nobody said where they are stand as `GROUP host N`."""
    places = placed(groups, {host: each.group for host, each in told.items()}, seen)
    found = {}
    ranks = max((each.ranks for each in told.values()), default=0)
    training = {each.group for each in told.values() if each.role == "dnn"}
    ranking = sum(group.count for group in groups if group.name in training or len(groups) == 1)
    for group in groups:
        hosts = sorted((host for host, name in places.items() if name == group.name), key=number)[: group.count]
        hosts += [f"{group.name} host {n + 1}" for n in range(len(hosts), group.count)]
        roles = {each.role for each in told.values() if each.group == group.name}
        role = roles.pop() if len(roles) == 1 else "dnn" if len(groups) == 1 else None
        found[group.name] = {
            "hosts": hosts,
            "instance_type": group.instance_type,
            "role": role,
            "ranks_per_host": ranks // ranking if role == "dnn" and ranking else 0,
        }
    return found


def number(host: str) -> tuple[int, str]:
    """By which hosts are sorted: algo-2 before algo-10."""
    digits = host.rpartition("-")[2]
    return (int(digits) if digits.isdecimal() else 0, host)
