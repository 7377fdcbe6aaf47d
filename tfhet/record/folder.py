"""The folder that one run leaves behind.

RUN/
  summary.json      the run in numbers (RunSummary)
  events.jsonl      what happened, one JSON object a line
  timeline.jsonl    where the time went, joined from the `timeline` folders below it (Timeline)
  logs/<host>.log   what each host printed
  report.html       the page made of the above
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfhet.errors import UsageError
from tfhet.events import Event
from tfhet.record import document
from tfhet.record.run import KIND, RunSummary
from tfhet.record.timeline import Timeline

PARTS = "timeline"
"""The folder in a host's record where its processes note times."""
_PLACES = (f"{PARTS}/*.jsonl", f"tfhet/{PARTS}/*.jsonl", f"hosts/*/output/data/tfhet/{PARTS}/*.jsonl")
"""Where they are found: in a host's own record, in what a platform collected, in the folder of a simulated run."""
_HOST_EVENTS = "hosts/*/output/data/tfhet/events.jsonl"
"""What a host of a simulated run writes by itself; `join_events` makes it part of the run's own."""


@dataclass(frozen=True)
class RunFolder:
    """Paths and content of one run's folder."""

    path: Path
    """The folder."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", Path(self.path))

    @property
    def summary_path(self) -> Path:
        return self.path / "summary.json"

    @property
    def events_path(self) -> Path:
        return self.path / "events.jsonl"

    @property
    def logs_path(self) -> Path:
        return self.path / "logs"

    @property
    def timeline_path(self) -> Path:
        return self.path / "timeline.jsonl"

    @property
    def report_path(self) -> Path:
        return self.path / "report.html"

    def log_path(self, host: str) -> Path:
        """Where the host's output goes. Raises UsageError for a name that would leave the folder."""
        if not host or host in (".", "..") or "/" in host or "\0" in host:
            raise UsageError(f"host name {host!r} cannot name a log file in {self.logs_path}")
        return self.logs_path / f"{host}.log"

    def create(self) -> RunFolder:
        """Makes the folder and its `logs`; leaves what is there."""
        self.logs_path.mkdir(parents=True, exist_ok=True)
        return self

    def write_summary(self, summary: RunSummary) -> Path:
        """Writes `summary.json`, whole or not at all."""
        return document.write(self.summary_path, summary.to_json())

    def read_summary(self) -> RunSummary:
        """Raises UsageError when there is no summary or its schema is another, DataError when it cannot be read."""
        return RunSummary.from_json(document.read(self.summary_path, KIND), str(self.summary_path))

    def write_event(self, event: Event) -> None:
        """Appends one line to `events.jsonl`. Usable as an Observer, from several processes at once.

        The line goes out in one write to a file opened for appending, so lines of different processes do not mix.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        line = _line(event.as_json())
        descriptor = os.open(self.events_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            os.write(descriptor, line.encode("utf-8", "backslashreplace"))  # as `document.write_text`
        finally:
            os.close(descriptor)

    def events(self) -> list[dict[str, Any]]:
        """The events in order of time, as JSON objects: the run's own, and those that its hosts have so far.

        A line that is cut short (its writer was killed) or no JSON is left out.
        """
        found = list(_events(self.events_path))
        joined = {_identity(event) for event in found}
        for path in self.host_events().values():
            found += [event for event in _events(path) if _identity(event) not in joined]
        return sorted(found, key=_time_s)

    def host_events(self) -> dict[str, Path]:
        """The files in which hosts of a simulated run write events, by host."""
        return {path.parts[-5]: path for path in sorted(self.path.glob(_HOST_EVENTS))}

    def join_events(self) -> Path | None:
        """Writes all events that there are into `events.jsonl`, whole or not at all; None when there are none.

        To be called when the run is over: what is written meanwhile could be lost. Raises OSError.
        """
        found = self.events()
        return document.write_text(self.events_path, "".join(map(_line, found))) if found else None

    def timeline(self) -> Timeline:
        """Where the time went, as far as the hosts have noted it; joined anew when it was not yet.

        Raises UsageError for another schema, DataError for a file that is no timeline.
        """
        if self.timeline_path.exists():
            return Timeline.read(self.timeline_path)
        return Timeline.join(path for place in _PLACES for path in sorted(self.path.glob(place)))

    def join_timeline(self) -> Path | None:
        """Writes `timeline.jsonl` from what the hosts have noted; None when that is nothing. Raises OSError.

        To be called when the run is over: what comes later is not looked for.
        """
        found = self.timeline()
        return None if found.is_empty else found.write(self.timeline_path)

    def hosts(self) -> list[str]:
        """The hosts that left a log, sorted."""
        return sorted(path.stem for path in self.logs_path.glob("*.log")) if self.logs_path.is_dir() else []

    def log_tail(self, host: str, lines: int = 20, limit_bytes: int = 65536) -> list[str]:
        """The last `lines` lines of the host's log, at most `limit_bytes` of it; empty when it left none."""
        path = self.log_path(host)
        if not path.exists():
            return []
        with open(path, "rb") as file:
            file.seek(0, os.SEEK_END)
            start = max(0, file.tell() - limit_bytes)
            file.seek(start)
            text = file.read().decode("utf-8", errors="replace")
        found = text.splitlines()
        return (found[1:] if start else found)[-lines:]


def _events(path: Path) -> Iterator[dict[str, Any]]:
    """The JSON objects of a file that has one a line, in its order; nothing of one that is not there."""
    if not path.exists():
        return
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            try:
                event = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(event, dict):
                yield event


def _line(event: Mapping[str, Any]) -> str:
    return json.dumps(document.plain(event), ensure_ascii=False, allow_nan=False) + "\n"


def _identity(event: Mapping[str, Any]) -> str:
    return json.dumps(event, sort_keys=True)


def _time_s(event: Mapping[str, Any]) -> float:
    at = event.get("time_s")
    return at if isinstance(at, (int, float)) else 0.0
