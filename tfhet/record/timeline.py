"""The timeline of a run: every step of every rank, and what hosts used, in the order of time. Ranks and launchers each
append to a `TimelineFile`, by their host's clock; `Timeline.join` puts all on the leader's."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import get_args

from tfhet.errors import DataError
from tfhet.record.entry import ClockOffset, Entry, UsageSample, entry_line, parse_entry
from tfhet.record.json_file import write_text
from tfhet.record.step_time import Pause, StepTime
from tfhet.schema import check_schema

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
        return cls(*(tuple(each for each in ordered if isinstance(each, kind)) for kind in get_args(Entry)))

    @classmethod
    def join(cls, paths: Iterable[Path]) -> Timeline:
        """The entries of several files on the leader's clock. Times of a host are corrected by its offset with the
        smallest error, if that offset exceeds its error."""
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


def natural(name: str) -> tuple[object, ...]:
    """Sort key that puts algo-2 before algo-10."""
    letters = name.rstrip("0123456789")
    digits = name[len(letters) :]
    return letters, int(digits[-15:] or -1), name


def _entries(path: Path) -> Iterator[Entry]:
    with open(path, encoding="utf-8", errors="replace") as file:
        yield from filter(None, map(parse_entry, file))
