"""The cluster file: groups, channels and launcher arguments of a simulated cluster, in YAML, like the `presets`."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

from tfhet.cluster import DNN_GROUP, code_dir
from tfhet.errors import JobFailed, UsageError, shown
from tfhet.process import Child, OnLine, describe_exit
from tfhet.schema import Name, number, whole
from tfhet.yaml_file import YamlFile, read_text

DIGITS = "digits"
"""First part of a channel's directory that is demonstration data: `digits/train`."""
MOST_HOSTS, MOST_RANKS = 1000, 100
_PRESETS = Path(__file__).parent / "presets"


@dataclass(frozen=True)
class GroupFile:
    """A group of hosts."""

    hosts: Annotated[int, whole(0, MOST_HOSTS)] = 1
    """At least 0; SageMaker allows a group without hosts."""
    ranks: Annotated[int, whole(1, MOST_RANKS)] = 1
    """Training processes on each host, where the group trains."""
    instance_type: Name = "ml.m5.large"
    cpus: Annotated[float, number(0.01, 1000.0)] | None = None
    """CPU seconds per second of each host; this and the limits below win over those of the instance type."""
    memory_mib: Annotated[float, number(64.0, 1e8)] | None = None
    mbit_per_s: Annotated[float, number(0.1, 1e7)] | None = None
    """Bandwidth in each direction."""
    latency_ms: Annotated[float, number(0.001, 1e4)] | None = None
    """Delay of each packet that it sends, and of each that it receives: between two such hosts twice that, each way."""
    loss_pct: Annotated[float, number(0.0001, 90.0)] | None = None
    """Percentage of packets lost at random, of those that it sends and of those that it receives."""


@dataclass(frozen=True)
class ClusterFile:
    name: Name = ""
    """By default the name of the file."""
    groups: Mapping[Name, GroupFile] = field(default_factory=dict)
    channels: Mapping[Name, str] = field(default_factory=dict)
    """Channel name to directory."""
    launcher: Mapping[Name, str] = field(default_factory=dict)

    def training_group(self, given: str) -> str:
        """Name of the group that trains: `given`, else `dnn_group`, or the only group."""
        return given or (DNN_GROUP if len(self.groups) > 1 else next(iter(self.groups)))

    def arguments(self) -> list[str]:
        """`launcher` as command line words."""
        return [word for name, value in self.launcher.items() for word in (f"--{name}", str(value))]

    @classmethod
    def parse(cls, text: str, where: str) -> ClusterFile:
        """Raises UsageError naming `where`, the line, the field and what it may be."""
        file = YamlFile(text, where)
        found = file.read(cls)
        if not 1 <= sum(group.hosts for group in found.groups.values()) <= MOST_HOSTS:
            raise file.mistake("groups", f"must be 1 to {MOST_HOSTS} hosts together")
        own = re.sub("[^A-Za-z0-9._-]+", "-", Path(where).stem)[:64].strip("._-") or "cluster"
        return replace(found, name=found.name or own)


def load(text: str) -> ClusterFile:
    """A cluster file by path, or a preset by name. Raises UsageError listing the presets."""
    path = Path(text)
    if path.suffix not in (".yaml", ".yml") and not os.path.isfile(text):
        if text not in presets():
            names = ", ".join(presets())
            raise UsageError(f"unknown cluster {shown(text)}: neither a file nor a preset; presets: {names}")
        path = _PRESETS / f"{text}.yaml"
    return ClusterFile.parse(read_text(path, "cluster file"), str(path))


def presets() -> list[str]:
    """Names of the clusters that ship with the package."""
    return sorted(path.stem for path in _PRESETS.glob("*.yaml"))


async def channel_directories(
    channels: Mapping[str, str], env: Mapping[str, str], on_line: OnLine, stop: asyncio.Event
) -> dict[str, Path]:
    """Directories of the channels by name, without those that do not exist: the job itself must report these. Raises
    UsageError when the demonstration data cannot be written, JobFailed when stopped meanwhile."""
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
    try:
        directory = code_dir(env, DIGITS) / "16-shards"
    except OSError as error:
        raise UsageError(f"the demonstration data cannot be kept: {error}") from None
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
