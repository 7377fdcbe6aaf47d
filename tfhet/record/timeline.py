"""Where the time of a run went, on one timeline: what ranks and launchers noted, each in a file of its own by the clock
of its host, joined in the order of time by the chief's clock."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tfhet.errors import DataError
from tfhet.record import document, entry
from tfhet.record.entry import ClockOffset, Entry, Span, Step, Use

SCHEMA = 1
KIND = "timeline"


@dataclass(frozen=True)
class Timeline:
    """What is known of a run, each kind in the order of time."""

    steps: tuple[Step, ...] = ()
    spans: tuple[Span, ...] = ()
    uses: tuple[Use, ...] = ()
    clocks: tuple[ClockOffset, ...] = ()

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> Timeline:
        ordered = sorted(entries, key=lambda each: each.at_s)
        return cls(
            tuple(each for each in ordered if isinstance(each, Step)),
            tuple(each for each in ordered if isinstance(each, Span)),
            tuple(each for each in ordered if isinstance(each, Use)),
            tuple(each for each in ordered if isinstance(each, ClockOffset)),
        )

    @classmethod
    def join(cls, paths: Iterable[Path]) -> Timeline:
        """What several processes wrote, by one clock: hosts whose clock is off are put right.

        A clock that agrees with the chief's within the error of the comparison is left as it is.
        """
        found = [each for path in paths for each in _entries(path)]
        clocks: dict[str, ClockOffset] = {}
        for each in found:
            if isinstance(each, ClockOffset) and each.error_s <= clocks.get(each.host, each).error_s:
                clocks[each.host] = each
        ahead_s = {host: clock.offset_s for host, clock in clocks.items() if clock.is_off}
        timed = [each for each in found if not isinstance(each, ClockOffset)]
        every = [*timed, *clocks.values()]
        return cls.of(replace(each, at_s=max(0.0, each.at_s + ahead_s.get(each.host, 0.0))) for each in every)

    @classmethod
    def read(cls, path: Path) -> Timeline:
        """What `write` wrote. Raises UsageError for another schema, DataError for a file that is no timeline."""
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
        """A first line with the schema, then all entries in the order of time."""
        every: list[Entry] = [*self.clocks, *self._timed]
        every.sort(key=lambda each: each.at_s)
        head = json.dumps({"kind": KIND, "schema": SCHEMA}) + "\n"
        return document.write_text(path, head + "".join(map(entry.line, every)))

    @property
    def is_empty(self) -> bool:
        return not self._timed

    @property
    def hosts(self) -> list[str]:
        """All that are in it, in the order of their names, algo-2 before algo-10."""
        return sorted({each.host for each in self._timed}, key=natural)

    @property
    def began_s(self) -> float:
        """When its first entry began; 0 where there is none."""
        return min((each.at_s for each in self._timed), default=0.0)

    @property
    def _timed(self) -> list[Step | Span | Use]:
        return [*self.steps, *self.spans, *self.uses]


@dataclass(frozen=True)
class Part:
    """The file of one process."""

    path: Path

    def append(self, new: Sequence[Entry]) -> None:
        """Adds lines, in one write. Raises OSError."""
        if new:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with open(self.path, "a", encoding="utf-8") as file:
                file.write("".join(map(entry.line, new)))


def natural(name: str) -> tuple[object, ...]:
    """What names are sorted by that end with a number."""
    letters = name.rstrip("0123456789")
    digits = name[len(letters) :]
    return letters, int(digits[-15:] or -1), name


def _entries(path: Path) -> Iterator[Entry]:
    """The lines of one file that can be read."""
    with open(path, encoding="utf-8", errors="replace") as file:
        for text in file:
            found = entry.parse(text)
            if found is not None:
                yield found
