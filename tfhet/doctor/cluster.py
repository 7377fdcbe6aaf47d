"""A cluster file, with what this machine knows about it: facts that the rules of `cluster_rules` judge."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from tfhet import arguments
from tfhet.catalogue import Instance, instance
from tfhet.errors import UsageError
from tfhet.launch.settings import LaunchSettings
from tfhet.planes.tf_service import ServiceSettings
from tfhet.simulate import ClusterFile, cluster_file
from tfhet.simulate.channels import DIGITS


@dataclass(frozen=True)
class ClusterFacts:
    """One cluster file."""

    cluster: ClusterFile
    settings: LaunchSettings
    """Of the launcher, as the file gives them; the usual ones where those are wrong."""
    refused: str
    """What is wrong with them; "" when nothing is."""
    types: Mapping[str, Instance | None]
    """By name; None for one that the catalogue does not have."""
    near: Mapping[str, str]
    """What the catalogue says of those that it does not have."""
    mistyped: Mapping[str, str]
    """Arguments that the launcher hands on to the script, each with the one of its own that looks like it."""
    files: Mapping[str, int | None]
    """Input files of each channel; None: there is no such directory."""
    cpus: int
    """Of this machine, as far as this process may use them."""
    memory_bytes: int

    @property
    def dnn_group(self) -> str:
        return self.cluster.training_group(self.settings.dnn_group)

    @property
    def dnn_hosts(self) -> int:
        group = self.cluster.groups.get(self.dnn_group)
        return group.hosts if group else 0

    @property
    def data_hosts(self) -> int:
        return sum(group.hosts for name, group in self.cluster.groups.items() if name != self.dnn_group)

    @property
    def workers(self) -> int:
        """Of the data service, in the whole cluster."""
        service = self.service
        return self.data_hosts * service.data_host_workers + self.dnn_hosts * service.dnn_host_workers

    @property
    def service(self) -> ServiceSettings:
        """The arguments of tf.data service."""
        return ServiceSettings.of(self.settings.planes)

    @property
    def ranks(self) -> int:
        group = self.cluster.groups.get(self.dnn_group)
        return group.hosts * group.ranks if group else 0


def look(name: str) -> ClusterFacts:
    """`name`: a cluster file, or a preset. Raises UsageError for what is none, or cannot be read."""
    cluster = cluster_file.load(name)
    try:
        settings, rest = LaunchSettings.parse(cluster.arguments())
        refused = ""
    except UsageError as error:
        settings, rest, refused = LaunchSettings(), [], str(error)
    types, near = {}, {}
    for group in cluster.groups.values():
        types[group.instance_type], near[group.instance_type] = _type(group.instance_type)
    return ClusterFacts(
        cluster,
        settings,
        refused,
        types,
        {name: why for name, why in near.items() if why},
        dict(_mistyped(rest)),
        {channel: count for channel, path in cluster.channels.items() for count in _counts(path)},
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        int(psutil.virtual_memory().total),
    )


def _type(name: str) -> tuple[Instance | None, str]:
    try:
        return instance(name), ""
    except UsageError as error:
        return None, str(error)


def _mistyped(rest: list[str]) -> Iterator[tuple[str, str]]:
    own = [item.name for kind in (LaunchSettings, ServiceSettings) for item in arguments.declared(kind)]
    for word in rest:
        name = word.removeprefix("--").replace("-", "_")
        for near in difflib.get_close_matches(name, own, n=1, cutoff=0.8) if word.startswith("--") else ():
            yield word, f"--{near}"


def _counts(path: str) -> Iterator[int | None]:
    """Nothing for the demonstration data, which are written when they are first used."""
    if Path(path).parts[:1] == (DIGITS,):
        return
    folder = Path(path)
    if not folder.is_dir():
        yield None
        return
    names = [each.name for each in folder.rglob("*") if each.is_file() and not each.name.startswith((".", "tfhet."))]
    yield len([name for name in names if ".tfrecord" in name]) or len(names)
