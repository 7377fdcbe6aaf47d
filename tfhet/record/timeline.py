"""The timeline of a run: every step of every rank, and what hosts used, in the order of time.

Ranks and launchers each append to a file of their own, by the clock of their host (`TimelineFile`). `Timeline.join`
reads these files and puts all times on the leader's clock.

    >>> from tfhet.record import RunFolder
    >>> timeline = RunFolder("runs/a").timeline()
    >>> slowest = max(timeline.steps, key=lambda step: step.dur_s)
    >>> slowest.host, slowest.step, slowest.wait_s
    ('algo-2', 1, 0.31)
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tfhet.errors import DataError
from tfhet.record import document, entry
from tfhet.record.entry import ClockOffset, Entry, UsageSample
from tfhet.record.step_time import Pause, StepTime

SCHEMA = 1
KIND = "timeline"


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
        return cls(
            tuple(each for each in ordered if isinstance(each, StepTime)),
            tuple(each for each in ordered if isinstance(each, Pause)),
            tuple(each for each in ordered if isinstance(each, UsageSample)),
            tuple(each for each in ordered if isinstance(each, ClockOffset)),
        )

    @classmethod
    def join(cls, paths: Iterable[Path]) -> Timeline:
        """The entries of several files on the leader's clock.

        Times of a host are corrected by its offset with the smallest error, if that offset exceeds its error.
        """
        found = [each for path in paths for each in _entries(path)]
        clocks: dict[str, ClockOffset] = {}
        for each in found:
            if isinstance(each, ClockOffset) and each.error_s <= clocks.get(each.host, each).error_s:
                clocks[each.host] = each
        offsets_s = {host: clock.offset_s for host, clock in clocks.items() if clock.is_off}
        timed = [each for each in found if not isinstance(each, ClockOffset)]
        every = [*timed, *clocks.values()]
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
        document.check_schema(head, KIND, SCHEMA, str(path))
        return cls.of(_entries(path))

    def write(self, path: Path) -> Path:
        """Writes a first line with the schema, then all entries in the order of time; whole or not at all."""
        every: list[Entry] = [*self.clocks, *self._timed]
        every.sort(key=lambda each: each.at_s)
        head = json.dumps({"kind": KIND, "schema": SCHEMA}) + "\n"
        return document.write_text(path, head + "".join(map(entry.line, every)))

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
                file.write("".join(map(entry.line, new)))


def natural(name: str) -> tuple[object, ...]:
    """Sort key that puts algo-2 before algo-10."""
    letters = name.rstrip("0123456789")
    digits = name[len(letters) :]
    return letters, int(digits[-15:] or -1), name


def _entries(path: Path) -> Iterator[Entry]:
    """The entries of one file; lines that hold none are left out."""
    with open(path, encoding="utf-8", errors="replace") as file:
        for text in file:
            found = entry.parse(text)
            if found is not None:
                yield found
