"""The cluster file: groups, channels and launcher arguments of a simulated cluster, in YAML, like the `presets`."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from tfhet.cluster import DNN_GROUP, cache_dir
from tfhet.errors import JobFailed, UsageError, shown
from tfhet.process import Child, OnLine, describe_exit

DIGITS = "digits"
"""First part of a channel's directory that is demonstration data: `digits/train`."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
MOST_HOSTS = 100
_OF_CONSTRUCTORS = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""Errors of PyYAML's constructors that it does not turn into its own, such as for a 31st of February."""
BOUNDS = {
    "hosts": (0, MOST_HOSTS),
    "ranks": (1, MOST_HOSTS),
    "cpus": (0.01, 1000.0),
    "memory_mib": (64.0, 1e8),
    "mbit_per_s": (0.1, 1e7),
    "latency_ms": (0.001, 1e4),
    "loss_pct": (0.0001, 90.0),
}
"""Bounds of a group's numbers; those of whole numbers are whole."""


class _Loader(yaml.SafeLoader):
    """Safe YAML whose mappings stay small: a few nested merges (`<<`) would otherwise take for ever."""

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Merges the mappings that `<<` names. Raises YAMLError when the result is too large."""
        super().flatten_mapping(node)
        if len(node.value) > MOST_HOSTS:
            raise yaml.YAMLError(f"a mapping of more than {MOST_HOSTS} keys")


@dataclass(frozen=True)
class GroupFile:
    """One group of hosts."""

    hosts: int = 1
    """At least 0; SageMaker allows a group without hosts."""
    ranks: int = 1
    """Training processes on each host, where the group trains."""
    instance_type: str = "ml.m5.large"
    cpus: float | None = None
    """CPU seconds per second of each host; this and the limits below win over those of the instance type."""
    memory_mib: float | None = None
    mbit_per_s: float | None = None
    """Bandwidth in each direction."""
    latency_ms: float | None = None
    """Delay of each packet that it sends, and of each that it receives: between two such hosts twice that, each way."""
    loss_pct: float | None = None
    """Percentage of packets lost at random, of those that it sends and of those that it receives."""


@dataclass(frozen=True)
class ClusterFile:
    """A simulated cluster."""

    name: str
    groups: Mapping[str, GroupFile]
    channels: Mapping[str, str] = field(default_factory=dict)
    """Channel name to directory."""
    launcher: Mapping[str, Any] = field(default_factory=dict)
    """Launcher arguments."""

    def training_group(self, given: str) -> str:
        """Name of the group that trains: `given`, else `dnn_group`, or the only group."""
        return given or (DNN_GROUP if len(self.groups) > 1 else next(iter(self.groups)))

    def arguments(self) -> list[str]:
        """`launcher` as command line words."""
        return [word for name, value in self.launcher.items() for word in (f"--{name}", str(value))]

    @classmethod
    def parse(cls, text: str, where: str) -> ClusterFile:
        """Raises UsageError naming `where`, the field and what it may be."""
        try:
            document = yaml.load(text, _Loader)
        except (yaml.YAMLError, *_OF_CONSTRUCTORS) as error:
            raise UsageError(f"{where}: not YAML: {' '.join(str(error).split())[:500]}") from None
        known = {f.name for f in fields(cls)}
        document = _mapping(document, where, known)
        name = document.get("name", Path(where).stem)
        if not _is_name(name):
            raise UsageError(f"{where}: name must be a word of letters, digits, '.', '_' and '-', not {shown(name)}")
        groups = {
            group: _group(group, value, where)
            for group, value in _mapping(document.get("groups"), f"{where}: groups").items()
        }
        if not groups:
            raise UsageError(f"{where}: groups is empty; a cluster needs at least one group")
        if not 1 <= sum(group.hosts for group in groups.values()) <= MOST_HOSTS:
            raise UsageError(f"{where}: a simulated cluster has 1 to {MOST_HOSTS} hosts")
        channels = _named(document.get("channels"), f"{where}: channels", str, "NAME: DIRECTORY")
        launcher = _named(document.get("launcher"), f"{where}: launcher", str | int | float, "ARGUMENT: VALUE")
        return cls(name, groups, channels, launcher)


def load(text: str) -> ClusterFile:
    """A cluster file by path, or a preset by name. Raises UsageError listing the presets."""
    path = Path(text)
    try:
        is_path = path.suffix in (".yaml", ".yml") or path.is_file()
        content = path.read_text(encoding="utf-8") if is_path else ""
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: cannot be read: {error}") from None
    if is_path:
        return ClusterFile.parse(content, str(path))
    if text not in presets():
        raise UsageError(f"unknown cluster {shown(text)}: neither a file nor a preset; presets: {', '.join(presets())}")
    source = resources.files("tfhet.simulate") / "presets" / f"{text}.yaml"
    return ClusterFile.parse(source.read_text(encoding="utf-8"), text)


def presets() -> list[str]:
    """Names of the clusters that ship with the package."""
    found = resources.files("tfhet.simulate").joinpath("presets").iterdir()
    return sorted(item.name.removesuffix(".yaml") for item in found if item.name.endswith(".yaml"))


def _is_name(value: object) -> bool:
    return isinstance(value, str) and _NAME.fullmatch(value) is not None


def _group(name: object, value: object, where: str) -> GroupFile:
    at = f"{where}: groups: {name}"
    if not _is_name(name):
        raise UsageError(f"{where}: groups: {shown(name)} is no name for a group")
    given = _mapping(value if value is not None else {}, at, {f.name for f in fields(GroupFile)})
    given = {entry: each for entry, each in given.items() if each is not None}
    if not isinstance(given.get("instance_type", ""), str):
        raise UsageError(f"{at}: instance_type must be text, not {shown(given['instance_type'])}")
    for entry, (least, most) in BOUNDS.items():
        amount = given.get(entry, least)
        is_number = isinstance(amount, int | type(least)) and not isinstance(amount, bool)
        if not is_number or not least <= amount <= most:
            raise UsageError(f"{at}: {entry} must be a number from {least:g} to {most:g}, not {shown(amount)}")
    return GroupFile(**given)


def _named(value: object, where: str, kind: Any, wanted: str) -> dict[str, Any]:
    found = _mapping(value or {}, where)
    for name, each in found.items():
        if not _is_name(name) or not isinstance(each, kind):
            raise UsageError(f"{where}: {shown(name)}: expected {wanted}, not {shown(each)}")
    return found


def _mapping(value: object, where: str, known: set[str] | None = None) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise UsageError(f"{where}: expected NAME: VALUE pairs, not {shown(value)}")
    for key in value:
        if known is not None and key not in known:
            raise UsageError(f"{where}: unknown field {shown(key)}; known: {', '.join(sorted(known))}")
    return value


async def channel_directories(
    channels: Mapping[str, str], env: Mapping[str, str], on_line: OnLine, stop: asyncio.Event
) -> dict[str, Path]:
    """Directories of the channels by name, without those that do not exist: the job itself must report these.

    Raises UsageError when the demonstration data cannot be written, JobFailed when stopped meanwhile.
    """
    there = {}
    for name, text in channels.items():
        path = Path(text)
        if path.parts[:1] == (DIGITS,):
            there[name] = (await _digits(env, on_line, stop)).joinpath(*path.parts[1:])
        elif path.is_dir():
            there[name] = path
        else:
            on_line(f"[simulate] channel {name}: {text} is no directory; the job will not see it")
    return there


async def _digits(env: Mapping[str, str], on_line: OnLine, stop: asyncio.Event) -> Path:
    """The folder of the demonstration data, which is written unless it is in the cache."""
    directory = cache_dir(env) / DIGITS / "16-shards"
    if directory.is_dir():
        return directory
    on_line(f"[simulate] writing the demonstration data to {directory}")
    # A process of its own: the simulator itself does not load TensorFlow.
    words = [sys.executable, "-m", "tfhet.source.digits", str(directory)]
    child = await Child.start("digits", words, env=env, on_line=on_line)
    ended, stopped = asyncio.create_task(child.wait()), asyncio.create_task(stop.wait())
    await asyncio.wait({ended, stopped}, return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    code = await child.stop()
    await ended
    if stop.is_set():
        raise JobFailed("stopped while the demonstration data was written")
    if code:
        why = "\n".join([describe_exit(code), *child.tail])
        raise UsageError(f"the demonstration data could not be written to {directory}: {why}")
    return directory
