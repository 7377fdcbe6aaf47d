"""The folder that one run leaves.

RUN/
  summary.json      the run in numbers (RunSummary)
  events.jsonl      events, one JSON object per line
  timeline.jsonl    steps and usage, joined from the `timeline` folders of its hosts (Timeline)
  logs/<host>.log   output of each host; those that launchers write hold noise, too
  report.html       the page made of the above
  live.json         totals per rank while the run continues (LiveRun), of a run of `tfhet watch`
  profile.json      what `tfhet profile` found of its pipeline, if one was put there; plan.json likewise
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tfhet.errors import UsageError
from tfhet.events import Event
from tfhet.record.json_file import json_value, read_json, write_json, write_text
from tfhet.record.live import LiveRun
from tfhet.record.run import KIND, RunSummary
from tfhet.record.timeline import Timeline
from tfhet.schema import check_schema, from_json

RUNS = Path("runs")
LIVE_KIND, LIVE_SCHEMA = "live state", 1
TIMELINE_FOLDER = "timeline"
"""Folder in a host's record in which each of its processes writes a timeline file."""
_TIMELINE_FILES = tuple(f"{at}{TIMELINE_FOLDER}/*.jsonl" for at in ("", "tfhet/", "hosts/*/output/data/tfhet/"))
"""Timeline files in a host's own record, in what a platform collected, and in the folder of a simulated run."""
_HOST_EVENTS = "hosts/*/output/data/tfhet/events.jsonl"
"""Events that a host of a simulated run wrote; `join_events` adds them to the run's own."""


class RunFolder:
    def __init__(self, path: Path | str):
        self.path = Path(path)
        self.summary_path = self.path / "summary.json"
        self.events_path = self.path / "events.jsonl"
        self.timeline_path = self.path / "timeline.jsonl"
        self.logs_path = self.path / "logs"
        self.report_path = self.path / "report.html"
        self.live_path = self.path / "live.json"
        self.profile_path = self.path / "profile.json"
        self.plan_path = self.path / "plan.json"

    def log_path(self, host: str) -> Path:
        """File for a host's output. Raises UsageError for a name that would lead out of the folder."""
        if not host or host in (".", "..") or "/" in host or "\0" in host:
            raise UsageError(f"host name {host!r} cannot name a log file in {self.logs_path}")
        return self.logs_path / f"{host}.log"

    def create(self) -> RunFolder:
        """Makes the folder and its `logs`; keeps what is there."""
        self.logs_path.mkdir(parents=True, exist_ok=True)
        return self

    def write_summary(self, summary: RunSummary) -> Path:
        """Writes `summary.json`, whole or not at all."""
        return write_json(self.summary_path, summary.to_json())

    def read_summary(self) -> RunSummary:
        """Reads `summary.json`. Raises UsageError for no file or another schema, DataError for other content."""
        return RunSummary.from_json(read_json(self.summary_path, KIND), str(self.summary_path))

    def write_live(self, live: LiveRun) -> Path:
        """Writes `live.json`, whole or not at all. Raises OSError."""
        return write_json(self.live_path, {"schema": LIVE_SCHEMA, "ranks": live.ranks})

    def read_live(self) -> LiveRun:
        """Reads `live.json`; a run without ranks if there is none. Raises UsageError for another schema, DataError for
        other content."""
        if not self.live_path.is_file():
            return LiveRun()
        try:
            content = read_json(self.live_path, LIVE_KIND)
        except UsageError:
            if self.live_path.is_file():
                raise
            return LiveRun()  # the run ended meanwhile
        check_schema(content, LIVE_KIND, LIVE_SCHEMA, str(self.live_path))
        return from_json(LiveRun, content, f"{LIVE_KIND} {self.live_path}")

    def write_event(self, event: Event) -> None:
        """Appends one line to `events.jsonl`. Can be used as an Observer, by several processes at once. Each line is a
        single write to a file opened for appending, so lines of different processes do not mix."""
        _append(self.events_path, _line(event.as_json()).encode("utf-8", "backslashreplace"))  # as `write_text`

    def write_log(self, host: str, lines: bytes) -> None:
        """Appends whole lines to a host's log, as `write_event` does. Raises UsageError as `log_path` does, OSError."""
        _append(self.log_path(host), lines)

    def events(self) -> list[dict[str, Any]]:
        """All events so far in the order of time, as JSON objects: the run's own and those of its hosts. Lines that
        were cut short or are not JSON are left out."""
        found = list(_events(self.events_path))
        joined = {_identity(event) for event in found}
        for path in self.host_events().values():
            found += [event for event in _events(path) if _identity(event) not in joined]
        return sorted(found, key=_time_s)

    def host_events(self) -> dict[str, Path]:
        """Event files of the hosts of a simulated run, by host."""
        return {path.parts[-5]: path for path in sorted(self.path.glob(_HOST_EVENTS))}

    def join_events(self) -> Path | None:
        """Writes all events into `events.jsonl`, whole or not at all; returns None when there are none. Call it after
        the run: events written meanwhile could be lost. Raises OSError."""
        found = self.events()
        return write_text(self.events_path, "".join(map(_line, found))) if found else None

    def timeline(self) -> Timeline:
        """The timeline: `timeline.jsonl`, or the files of the hosts as far as they are written. Raises UsageError for
        another schema, DataError for a file that is no timeline."""
        if self.timeline_path.exists():
            return Timeline.read(self.timeline_path)
        return Timeline.join(path for place in _TIMELINE_FILES for path in sorted(self.path.glob(place)))

    def join_timeline(self) -> Path | None:
        """Writes `timeline.jsonl` from the files of the hosts; returns None when they are empty. Raises OSError. Call
        it after the run: later entries are not added."""
        found = self.timeline()
        return None if found.is_empty else found.write(self.timeline_path)

    def hosts(self) -> list[str]:
        """Names of the hosts that left a log, sorted."""
        return sorted(path.stem for path in self.logs_path.glob("*.log"))

    def log_tail(self, host: str, lines: int = 20, limit_bytes: int = 65536) -> list[str]:
        """The last `lines` lines of a host's log, from its last `limit_bytes` bytes; empty without a log."""
        path = self.log_path(host)
        if not path.is_file():
            return []
        with open(path, "rb") as file:
            start = max(0, file.seek(0, os.SEEK_END) - limit_bytes)
            file.seek(start)
            found = file.read().decode("utf-8", errors="replace").splitlines()
        return (found[1:] if start else found)[-lines:]


class LineTail:
    """The whole lines of a file that grows; it need not be there yet."""

    def __init__(self, path: Path):
        self._path = path
        self._position = 0

    def new(self) -> Iterator[bytes]:
        """Yields the lines that came since the last call; all lines of a file that became shorter. Raises OSError."""
        if not self._path.is_file():
            return
        with open(self._path, "rb") as file:
            if file.seek(0, os.SEEK_END) < self._position:
                self._position = 0
            file.seek(self._position)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                self._position += len(line)
                yield line


class EventTail:
    """The first event of each name in an `events.jsonl` that grows."""

    def __init__(self, path: Path):
        self.seen: dict[str, dict[str, Any]] = {}
        """The first event of each name that was read so far."""
        self._tail = LineTail(path)

    def read(self) -> dict[str, dict[str, Any]]:
        """Reads what came since the last call; returns `seen`. Raises OSError."""
        for line in self._tail.new():
            if (event := _parsed(line)) and isinstance(name := event.get("event"), str):
                self.seen.setdefault(name, event)
        return self.seen


def _append(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    try:
        os.write(descriptor, content)
    finally:
        os.close(descriptor)


def _events(path: Path) -> Iterator[dict[str, Any]]:
    """The JSON objects of a file with one per line; none without a file."""
    if path.is_file():
        with open(path, encoding="utf-8", errors="replace") as file:
            yield from (event for line in file if (event := _parsed(line)) is not None)


def _parsed(line: str | bytes) -> dict[str, Any] | None:
    """The JSON object in a line; None where it holds none, or was cut short because its writer was killed."""
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) else None


def _line(event: Mapping[str, Any]) -> str:
    return json.dumps(json_value(event), ensure_ascii=False, allow_nan=False) + "\n"


def _identity(event: Mapping[str, Any]) -> str:
    return json.dumps(event, sort_keys=True)


def _time_s(event: Mapping[str, Any]) -> float:
    at = event.get("time_s")
    return at if isinstance(at, (int, float)) else 0.0


def runs_in(parent: Path) -> list[RunFolder]:
    """The runs in a folder, the latest first; none without such a folder."""
    found = [RunFolder(path) for path in parent.glob("*") if _is_run(path)]
    return sorted(found, key=lambda run: run.logs_path.stat().st_mtime, reverse=True)


def latest_in(path: Path) -> Path:
    """The folder of the latest run in a folder of runs; any other path as it is."""
    found = [] if _is_run(path) else runs_in(path)
    return found[0].path if found else path


def _is_run(path: Path) -> bool:
    return RunFolder(path).logs_path.is_dir()  # which is made at the start of a run
