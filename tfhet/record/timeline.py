"""The timeline of a run: every step of every rank, and what hosts used, in the order of time.

Ranks and launchers each append to a file of their own, by the clock of their host (`TimelineFile`). `Timeline.join`
reads these files and puts all times on the leader's clock.

    >>> from tfhet.record import RunFolder
    >>> timeline = RunFolder("runs/a").timeline()
    >>> slowest = max(timeline.steps, key=lambda step: step.dur_s)
    >>> slowest.host, slowest.step, slowest.wait_s
    ('algo-2', 1, 0.31)

An entry is one line, a JSON object with `kind`, `host`, its beginning `at_s` (seconds since 1970) and its duration
`dur_s`. Readers ignore fields that they do not know, and leave out lines that hold no entry.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tfhet.errors import DataError
from tfhet.record.json_file import write_text
from tfhet.record.json_object import check_schema, from_json_object
from tfhet.record.step_time import Pause, StepTime

SCHEMA = 1
KIND = "timeline"


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
    """Memory in use at the end of the sample."""
    received_bytes_per_s: float
    """Through all network interfaces except the loopback; `sent_bytes_per_s` likewise."""
    sent_bytes_per_s: float
    gpus_busy_pct: tuple[float, ...] = ()
    """Per GPU: share of the driver's last sampling period in which a kernel ran, 0 to 100; () without GPUs."""
    gpus_memory_bytes: tuple[float, ...] = ()
    """Per GPU: memory in use; () without GPUs."""


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
_NAMES = {kind: name for name, kind in _KINDS.items()}


@dataclass(frozen=True)
class Timeline:
    """The entries of a run by kind, each kind in the order of time."""

    steps: tuple[StepTime, ...] = ()
    pauses: tuple[Pause, ...] = ()
    usage: tuple[UsageSample, ...] = ()
    clocks: tuple[ClockOffset, ...] = ()

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> Timeline:
        ordered = sorted(entries, key=lambda each: each.at_s)
        return cls(*(tuple(each for each in ordered if isinstance(each, kind)) for kind in _KINDS.values()))

    @classmethod
    def join(cls, paths: Iterable[Path]) -> Timeline:
        """The entries of several files on the leader's clock.

        Times of a host are corrected by its offset with the smallest error, if that offset exceeds its error.
        """
        found = cls.of(each for path in paths for each in _entries(path))
        clocks: dict[str, ClockOffset] = {}
        for each in found.clocks:
            if each.error_s <= clocks.get(each.host, each).error_s:
                clocks[each.host] = each
        offsets_s = {host: clock.offset_s for host, clock in clocks.items() if abs(clock.offset_s) > clock.error_s}
        every = [*found._timed, *clocks.values()]
        return cls.of(replace(each, at_s=max(0.0, each.at_s + offsets_s.get(each.host, 0.0))) for each in every)

    @classmethod
    def read(cls, path: Path) -> Timeline:
        """Reads what `write` wrote. Raises UsageError for another schema, DataError for a file that is no timeline."""
        with open(path, encoding="utf-8", errors="replace") as file:
            first = file.readline()
        try:
            head = json.loads(first)
        except (ValueError, RecursionError):
            head = None
        if not isinstance(head, dict) or head.get("kind") != KIND:
            raise DataError(f"{path} is no timeline: it does not begin with one's first line", str(path))
        check_schema(head, KIND, SCHEMA, str(path))
        return cls.of(_entries(path))

    def write(self, path: Path) -> Path:
        """Writes a first line with the schema, then all entries in the order of time; whole or not at all."""
        every = sorted([*self.clocks, *self._timed], key=lambda each: each.at_s)
        head = json.dumps({"kind": KIND, "schema": SCHEMA}) + "\n"
        return write_text(path, head + "".join(map(entry_line, every)))

    @property
    def is_empty(self) -> bool:
        return not self._timed

    @property
    def hosts(self) -> list[str]:
        """Names of all hosts with an entry, in natural order: algo-2 before algo-10."""
        return sorted({each.host for each in self._timed}, key=natural)

    @property
    def began_s(self) -> float:
        """Beginning of the first entry, in seconds since 1970; 0 without entries."""
        return min((each.at_s for each in self._timed), default=0.0)

    @property
    def _timed(self) -> list[StepTime | Pause | UsageSample]:
        return [*self.steps, *self.pauses, *self.usage]


@dataclass(frozen=True)
class TimelineFile:
    """The file to which one process appends its entries."""

    path: Path

    def append(self, new: Sequence[Entry]) -> None:
        """Appends entries in one write; makes the folder. Raises OSError."""
        if new:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with open(self.path, "a", encoding="utf-8") as file:
                file.write("".join(map(entry_line, new)))


def natural(name: str) -> tuple[object, ...]:
    """Sort key that puts algo-2 before algo-10."""
    letters = name.rstrip("0123456789")
    digits = name[len(letters) :]
    return letters, int(digits[-15:] or -1), name


def entry_line(entry: Entry) -> str:
    """The entry as one line of JSON with its line break; numbers are rounded to 7 decimals (0.1 microseconds)."""
    return json.dumps({"kind": _NAMES[type(entry)], **_rounded(vars(entry))}) + "\n"


def _rounded(value: Any) -> Any:
    if isinstance(value, HostUsage):
        value = vars(value)
    if isinstance(value, Mapping):
        return {name: _rounded(each) for name, each in value.items()}
    return round(value, 7) if isinstance(value, float) else value


def parse_entry(text: str) -> Entry | None:
    """The entry in a line; None for a line that was cut short or holds no entry."""
    try:
        values = json.loads(text, parse_constant=int)  # int refuses NaN and Infinity
        kind = _KINDS[values.pop("kind")]
        machine = values.pop("machine", None)
        found: Any = from_json_object(kind, values, "entry")
        return replace(found, machine=from_json_object(HostUsage, machine, "entry")) if machine else found
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError, DataError):
        return None


def _entries(path: Path) -> Iterator[Entry]:
    """The entries of one file; lines that hold none are left out."""
    with open(path, encoding="utf-8", errors="replace") as file:
        for text in file:
            if (found := parse_entry(text)) is not None:
                yield found
