"""The entries of a timeline: as objects, as lines, and in the file of one process.

An entry is one line, a JSON object with `kind`, `host`, its beginning `at_s` (seconds since 1970) and its duration
`dur_s`. Readers ignore fields that they do not know, and leave out lines that hold no entry.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec

from tfhet.record.step_time import Pause, StepTime
from tfhet.schema import MessageError, decode


@dataclass(frozen=True)
class HostUsage:
    """Usage of all processes on one host together."""

    cpus: float
    """CPU seconds per second."""
    of_cpus: float
    """Number of CPUs that can be used."""
    counted: str
    """The counters that were read: those of the `machine`, or of the `cgroup` of a container."""
    memory_bytes: float
    """Memory in use at the end of the sample. If `shared_bytes` is None and a cgroup was counted, it includes the file
    cache."""
    received_bytes_per_s: float
    """Through all network interfaces except the loopback; `sent_bytes_per_s` likewise."""
    sent_bytes_per_s: float
    gpus_busy_pct: tuple[float, ...] = ()
    """Per GPU: share of the driver's last sampling period in which a kernel ran, 0 to 100; () without GPUs."""
    gpus_memory_bytes: tuple[float, ...] = ()
    """Per GPU: memory in use; () without GPUs."""
    shared_bytes: float | None = None
    """Shared memory and files in tmpfs, a part of `memory_bytes`; None if it was not counted."""
    disk_bytes: float | None = None
    """Disk in use on the volume of the job's data; None if the job has no volume of its own."""


@dataclass(frozen=True)
class UsageSample:
    """Usage that one launcher measured over one sampling period, which is about a second."""

    host: str
    at_s: float
    dur_s: float
    member: str
    """The launcher's name on the link: the name of its host, or `rank-N`."""
    processes: Mapping[str, float]
    """CPU seconds per second by process: `launcher`, `rank-N`, and whatever else the launcher runs."""
    machine: HostUsage | None = None
    """The whole host; only from the launcher that leads it."""


@dataclass(frozen=True)
class ClockOffset:
    """Difference between the leader's clock and that of a host."""

    host: str
    at_s: float
    dur_s: float
    offset_s: float
    """Seconds to add to the times that the host wrote."""
    error_s: float
    """Largest error of `offset_s`: half of the round trip by which it was measured."""


Entry = StepTime | Pause | UsageSample | ClockOffset

_KINDS: dict[str, type[Any]] = {"step": StepTime, "span": Pause, "use": UsageSample, "clock": ClockOffset}
_Kind = msgspec.defstruct("_Kind", [("kind", str)])
_NAMES = {kind: name for name, kind in _KINDS.items()}


def entry_line(entry: Entry) -> str:
    """The entry as one line of JSON with its line break; numbers are rounded to 7 decimals (0.1 microseconds)."""
    fields = _rounded(asdict(entry))
    if fields.get("times") == 1:
        del fields["times"]
    return json.dumps({"kind": _NAMES[type(entry)], **fields}) + "\n"


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _rounded(each) for name, each in value.items()}
    return round(value, 7) if isinstance(value, float) else value


def parse_entry(text: str) -> Entry | None:
    """The entry in a line; None for a line that was cut short or holds no entry."""
    with contextlib.suppress(MessageError, KeyError):
        entry: Entry = decode(text, _KINDS[decode(text, _Kind).kind])
        return entry
    return None


@dataclass(frozen=True)
class TimelineFile:
    """The file to which one process appends its entries."""

    path: Path

    def size(self) -> int:
        """Bytes in the file; 0 if it does not exist."""
        return self.path.stat().st_size if self.path.exists() else 0

    def append(self, new: Sequence[Entry], begin: int | None = None) -> None:
        """Appends entries. begin: after removing what follows that number of bytes."""
        if new or begin is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with open(self.path, "a", encoding="utf-8") as file:
                if begin is not None:
                    file.truncate(begin)
                file.write("".join(map(entry_line, new)))
