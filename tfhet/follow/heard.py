"""What the log of a training job says of its hosts and its steps.

SageMaker does not say which host is in which group; the launcher on the host does.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from tfhet.catalogue import InstanceGroup
from tfhet.follow.log_streams import LogLine
from tfhet.messages import (
    EpochLine,
    FirstBatchLine,
    HostLine,
    JobResultLine,
    MetricLine,
    RestartLine,
    StepPartsLine,
    parse_line,
)


class Heard:
    """Takes lines, and holds what they say."""

    def __init__(self) -> None:
        self.hosts: dict[str, HostLine | None] = {}
        """All that printed anything, with what their launchers said of themselves; None of who said nothing."""
        self.metrics: dict[int, MetricLine] = {}
        """By step: of a step that was taken twice, after a restart, the later."""
        self.trained_ms: tuple[int, int] | None = None
        """When the first and the last metric line was printed, in milliseconds since 1970."""
        self.ends: dict[str, tuple[int, str]] = {}
        """By host the exit code of a launcher that ended badly, and why."""
        self.epochs: dict[int, dict[str, Any]] = {}
        self.parts_ms: dict[str, float] = {}
        """As `RunSummary.step_parts_ms`."""
        self.first_batch_s: float | None = None
        self.restarts = 0
        """Of processes of the data service."""

    @property
    def introduced(self) -> dict[str, HostLine]:
        """The hosts whose launchers said where they are."""
        return {host: said for host, said in self.hosts.items() if said is not None}

    @property
    def steps(self) -> list[MetricLine]:
        """The metric lines in the order of their steps."""
        return [self.metrics[step] for step in sorted(self.metrics)]

    def hear(self, line: LogLine) -> bool:
        """Takes a line; whether it is a metric line."""
        self.hosts.setdefault(line.host, None)
        said = parse_line(line.text)
        if isinstance(said, MetricLine):
            self.metrics[said.step] = said
            first, last = self.trained_ms or (line.at_ms, line.at_ms)
            self.trained_ms = (min(first, line.at_ms), max(last, line.at_ms))
        elif isinstance(said, HostLine):
            self.hosts[line.host] = said
        elif isinstance(said, JobResultLine):
            self.ends.setdefault(line.host, (said.code, said.cause))
        elif isinstance(said, FirstBatchLine):
            self.first_batch_s = self.first_batch_s or said.after_s
        elif isinstance(said, StepPartsLine):
            self.parts_ms = dict(said.parts_ms)
        elif isinstance(said, EpochLine):
            self.epochs[int(said.numbers["epoch"])] = dict(said.numbers)
        elif isinstance(said, RestartLine):
            self.restarts += 1
        return isinstance(said, MetricLine)


def placed(groups: Sequence[InstanceGroup], known: Mapping[str, str], seen: Collection[str] = ()) -> dict[str, str]:
    """The group of each host that is known, by host.

    known: as their launchers said. seen: all hosts that there are. Where a single group lacks hosts, the others are
    its.
    """
    names = {group.name for group in groups}
    found = {host: group for host, group in known.items() if group in names}
    lacking = [group for group in groups if sum(each == group.name for each in found.values()) < group.count]
    if len(groups) == 1 or len(lacking) == 1:
        only = lacking[0].name if lacking else groups[0].name
        found.update({host: only for host in seen if host not in found})
    return found


def cluster_of(
    groups: Sequence[InstanceGroup], introduced: Mapping[str, HostLine], seen: Collection[str] = ()
) -> dict[str, dict[str, Any]]:
    """The cluster as `RunSummary.cluster` holds it. Hosts whose group is not known stand as `GROUP host N`."""
    places = placed(groups, {host: each.group for host, each in introduced.items()}, seen)
    found = {}
    ranks = max((each.ranks for each in introduced.values()), default=0)
    training = {each.group for each in introduced.values() if each.role == "dnn"}
    ranking = sum(group.count for group in groups if group.name in training or len(groups) == 1)
    for group in groups:
        hosts = sorted((host for host, name in places.items() if name == group.name), key=number)[: group.count]
        hosts += [f"{group.name} host {n + 1}" for n in range(len(hosts), group.count)]
        roles = {each.role for each in introduced.values() if each.group == group.name}
        role = roles.pop() if len(roles) == 1 else "dnn" if len(groups) == 1 else None
        found[group.name] = {
            "hosts": hosts,
            "instance_type": group.instance_type,
            "role": role,
            "ranks_per_host": ranks // ranking if role == "dnn" and ranking else 0,
        }
    return found


def number(host: str) -> tuple[int, str]:
    """Sorts hosts: algo-2 before algo-10."""
    digits = host.rpartition("-")[2]
    return (int(digits) if digits.isdecimal() else 0, host)
