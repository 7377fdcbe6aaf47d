"""The cluster file: groups, channels and launcher arguments of a simulated cluster, in YAML, like the `presets`."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, get_type_hints

from tfhet.catalogue import NAME, Kind, Node, number, whole
from tfhet.cluster import DNN_GROUP, cache_dir
from tfhet.errors import JobFailed, UsageError, shown
from tfhet.process import Child, OnLine, describe_exit

DIGITS = "digits"
"""First part of a channel's directory that is demonstration data: `digits/train`."""
MOST_HOSTS = 100
_TEXT = Kind(str, "a single value")


@dataclass(frozen=True)
class GroupFile:
    """A group, each of whose values is written as its annotation says."""

    hosts: Annotated[int, whole(0, MOST_HOSTS)] = 1
    """At least 0; SageMaker allows a group without hosts."""
    ranks: Annotated[int, whole(1, MOST_HOSTS)] = 1
    """Training processes on each host, where the group trains."""
    instance_type: Annotated[str, NAME] = "ml.m5.large"
    cpus: Annotated[float | None, number(0.01, 1000.0)] = None
    """CPU seconds per second of each host; this and the limits below win over those of the instance type."""
    memory_mib: Annotated[float | None, number(64.0, 1e8)] = None
    mbit_per_s: Annotated[float | None, number(0.1, 1e7)] = None
    """Bandwidth in each direction."""
    latency_ms: Annotated[float | None, number(0.001, 1e4)] = None
    """Delay of each packet that it sends, and of each that it receives: between two such hosts twice that, each way."""
    loss_pct: Annotated[float | None, number(0.0001, 90.0)] = None
    """Percentage of packets lost at random, of those that it sends and of those that it receives."""


_GROUP = {name: hint.__metadata__[0] for name, hint in get_type_hints(GroupFile, include_extras=True).items()}


@dataclass(frozen=True)
class ClusterFile:
    name: str
    groups: Mapping[str, GroupFile]
    channels: Mapping[str, str] = field(default_factory=dict)
    """Channel name to directory."""
    launcher: Mapping[str, Any] = field(default_factory=dict)

    def training_group(self, given: str) -> str:
        """Name of the group that trains: `given`, else `dnn_group`, or the only group."""
        return given or (DNN_GROUP if len(self.groups) > 1 else next(iter(self.groups)))

    def arguments(self) -> list[str]:
        """`launcher` as command line words."""
        return [word for name, value in self.launcher.items() for word in (f"--{name}", str(value))]

    @classmethod
    def parse(cls, text: str, where: str) -> ClusterFile:
        """Raises UsageError naming `where`, the line, the field and what it may be."""
        top = Node.parse(text, where)
        if top is None:
            raise UsageError(f"{where}: it is empty; a cluster needs groups")
        parts = top.mapping([field.name for field in fields(cls)], needed=("groups",))
        own = re.sub("[^A-Za-z0-9._-]+", "-", Path(where).stem)[:64].strip("._-") or "cluster"
        name = parts["name"].value(NAME) if "name" in parts else own
        groups = {name: _group(part) for name, part in parts["groups"].named(NAME).items()}
        if not 1 <= sum(group.hosts for group in groups.values()) <= MOST_HOSTS:
            raise parts["groups"].refused(f"1 to {MOST_HOSTS} hosts together")
        channels, launcher = (_named(parts.get(each)) for each in ("channels", "launcher"))
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


def _group(node: Node) -> GroupFile:
    parts = {} if node.is_null else node.mapping(tuple(_GROUP))
    return GroupFile(**{name: part.value(_GROUP[name]) for name, part in parts.items() if not part.is_null})


def _named(node: Node | None) -> dict[str, str]:
    return {} if node is None or node.is_null else {name: each.value(_TEXT) for name, each in node.named(NAME).items()}


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
