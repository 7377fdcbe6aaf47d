"""The cluster file: groups, channels and launcher arguments of a simulated cluster, in YAML.

name: demo
groups:
  data_group: {hosts: 1, instance_type: ml.c5.xlarge}
  dnn_group:  {hosts: 1, ranks: 2, instance_type: ml.p3.8xlarge}
channels:                        # name: directory; "digits/..." is the demonstration data
  training: digits/train
launcher:                        # arguments of the launcher, before those of the command line
  data_host_workers: 1
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from tfhet.errors import UsageError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
MOST_HOSTS = 100


@dataclass(frozen=True)
class GroupFile:
    """One group of hosts."""

    hosts: int = 1
    """At least 0; SageMaker allows a group without hosts."""
    ranks: int = 1
    """Training processes on each host, where the group trains."""
    instance_type: str = "ml.m5.large"


@dataclass(frozen=True)
class ClusterFile:
    """A simulated cluster."""

    name: str
    groups: Mapping[str, GroupFile]
    channels: Mapping[str, str] = field(default_factory=dict)
    """Channel name to directory."""
    launcher: Mapping[str, Any] = field(default_factory=dict)
    """Launcher arguments."""

    def arguments(self) -> list[str]:
        """`launcher` as command line words."""
        return [word for name, value in self.launcher.items() for word in (f"--{name}", str(value))]

    @classmethod
    def parse(cls, text: str, where: str) -> ClusterFile:
        """Raises UsageError naming `where`, the field and what it may be."""
        try:
            document = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise UsageError(f"{where}: not YAML: {' '.join(str(error).split())}") from None
        known = {f.name for f in fields(cls)}
        document = _mapping(document, where, known)
        name = document.get("name", Path(where).stem)
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise UsageError(f"{where}: name must be a word of letters, digits, '.', '_' and '-', not {name!r}")
        groups = {
            str(group): _group(group, value, where)
            for group, value in _mapping(document.get("groups"), f"{where}: groups").items()
        }
        if not groups:
            raise UsageError(f"{where}: groups is empty; a cluster needs at least one group")
        if not 1 <= sum(group.hosts for group in groups.values()) <= MOST_HOSTS:
            raise UsageError(f"{where}: a simulated cluster has 1 to {MOST_HOSTS} hosts")
        channels = _mapping(document.get("channels") or {}, f"{where}: channels")
        for channel, directory in channels.items():
            if not isinstance(channel, str) or not _NAME.fullmatch(channel) or not isinstance(directory, str):
                raise UsageError(f"{where}: channels: {channel!r}: expected NAME: DIRECTORY, not {directory!r}")
        launcher = _mapping(document.get("launcher") or {}, f"{where}: launcher")
        for argument, value in launcher.items():
            if not isinstance(argument, str) or not isinstance(value, (str, int, float)):
                raise UsageError(f"{where}: launcher: {argument!r}: expected ARGUMENT: VALUE, not {value!r}")
        return cls(name, groups, channels, launcher)


def load(text: str) -> ClusterFile:
    """A cluster file by path, or a preset by name. Raises UsageError listing the presets."""
    path = Path(text)
    if path.suffix in (".yaml", ".yml") or path.is_file():
        try:
            return ClusterFile.parse(path.read_text(encoding="utf-8"), str(path))
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"{path}: cannot be read: {error}") from None
    if text not in presets():
        raise UsageError(f"unknown cluster {text!r}: neither a file nor a preset; presets: {', '.join(presets())}")
    source = resources.files("tfhet.simulate") / "presets" / f"{text}.yaml"
    return ClusterFile.parse(source.read_text(encoding="utf-8"), text)


def presets() -> list[str]:
    """Names of the clusters that ship with the package."""
    found = resources.files("tfhet.simulate").joinpath("presets").iterdir()
    return sorted(item.name.removesuffix(".yaml") for item in found if item.name.endswith(".yaml"))


def _group(name: object, value: object, where: str) -> GroupFile:
    at = f"{where}: groups: {name}"
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise UsageError(f"{where}: groups: {name!r} is no name for a group")
    known = {f.name for f in fields(GroupFile)}
    given = _mapping(value if value is not None else {}, at, known)
    for number, low in (("hosts", 0), ("ranks", 1)):
        count = given.get(number, 1)
        if not isinstance(count, int) or isinstance(count, bool) or not low <= count <= MOST_HOSTS:
            raise UsageError(f"{at}: {number} must be a number from {low} to {MOST_HOSTS}, not {count!r}")
    if not isinstance(given.get("instance_type", ""), str):
        raise UsageError(f"{at}: instance_type must be text, not {given['instance_type']!r}")
    return GroupFile(**given)


def _mapping(value: object, where: str, known: set[str] | None = None) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise UsageError(f"{where}: expected NAME: VALUE pairs, not {str(value)[:60]!r}")
    for key in value:
        if known is not None and key not in known:
            raise UsageError(f"{where}: unknown field {key!r}; known: {', '.join(sorted(known))}")
    return value
