"""The content of a training job's log: steps, results, and hosts, whose groups only their launchers name."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tfhet import messages
from tfhet.catalogue import InstanceGroup
from tfhet.follow.log_streams import LogLine
from tfhet.record import natural


@dataclass
class Heard:
    hosts: dict[str, messages.HostLine | None] = field(default_factory=dict)
    """Hosts that printed a line, each with the introduction of its launcher."""
    metrics: dict[int, messages.MetricLine] = field(default_factory=dict)
    """Metric lines by step; the latest of a step that was repeated after a restart."""
    trained_ms: tuple[int, int] | None = None
    """Times of the first and the last metric line, in milliseconds since 1970."""
    ends: dict[str, tuple[int, str]] = field(default_factory=dict)
    """Exit code and cause of each failed launcher, by host."""
    epochs: dict[int, dict[str, Any]] = field(default_factory=dict)
    parts_ms: dict[str, float] = field(default_factory=dict)
    """As `RunSummary.step_parts_ms`."""
    first_batch_s: float | None = None
    restarts: int = 0

    @property
    def introduced(self) -> dict[str, messages.HostLine]:
        return {host: line for host, line in self.hosts.items() if line is not None}

    @property
    def groups(self) -> dict[str, str]:
        return {host: line.group for host, line in self.introduced.items()}

    @property
    def steps(self) -> list[messages.MetricLine]:
        return [self.metrics[step] for step in sorted(self.metrics)]

    def hear(self, line: LogLine) -> bool:
        """Parses a line. Returns whether it is a metric line."""
        self.hosts.setdefault(line.host, None)
        message = messages.parse_line(line.text)
        match message:
            case messages.MetricLine():
                self.metrics[message.step] = message
                first, last = self.trained_ms or (line.at_ms, line.at_ms)
                self.trained_ms = (min(first, line.at_ms), max(last, line.at_ms))
            case messages.HostLine():
                self.hosts[line.host] = message
            case messages.JobResultLine():
                self.ends.setdefault(line.host, (message.code, message.cause))
            case messages.FirstBatchLine():
                self.first_batch_s = self.first_batch_s or message.after_s
            case messages.StepPartsLine():
                self.parts_ms = dict(message.parts_ms)
            case messages.EpochLine():
                self.epochs[int(message.numbers["epoch"])] = dict(message.numbers)
            case messages.RestartLine():
                self.restarts += 1
        return isinstance(message, messages.MetricLine)


def placed(groups: Sequence[InstanceGroup], known: Mapping[str, str], hosts: Collection[str]) -> dict[str, str]:
    """Returns the certain groups of hosts: those `known` from launchers; a single group without hosts has the rest."""
    names = {group.name for group in groups}
    found = {host: group for host, group in known.items() if group in names}
    lacking = [group.name for group in groups if list(found.values()).count(group.name) < group.count]
    only = lacking or [group.name for group in groups]
    return {**dict.fromkeys(hosts, only[0]), **found} if len(only) == 1 else found


def cluster_of(groups: Sequence[InstanceGroup], heard: Heard) -> dict[str, dict[str, Any]]:
    """Returns `RunSummary.cluster`. Hosts that printed nothing are called `GROUP host N`."""
    places = placed(groups, heard.groups, heard.hosts)
    introduced = heard.introduced.values()
    ranks = max((line.ranks for line in introduced), default=0)
    training = {line.group for line in introduced if line.role == "dnn"}
    ranking = sum(group.count for group in groups if group.name in training or len(groups) == 1)
    found = {}
    for group in groups:
        hosts = sorted((host for host, name in places.items() if name == group.name), key=natural)[: group.count]
        hosts += [f"{group.name} host {n + 1}" for n in range(len(hosts), group.count)]
        roles = {line.role for line in introduced if line.group == group.name}
        role = roles.pop() if len(roles) == 1 else "dnn" if len(groups) == 1 else None
        found[group.name] = {
            "hosts": hosts,
            "instance_type": group.instance_type,
            "role": role,
            "ranks_per_host": ranks // ranking if role == "dnn" and ranking else 0,
        }
    return found
