"""A run as its folder shows it while it goes on: steps from the logs, what happened from the events."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfhet import clock as clocks
from tfhet.record import RunFolder, RunSummary

INCIDENTS = (
    "fault.injected",
    "host.lost",
    "job.left_behind",
    "job.stopping",
    "link.member_lost",
    "link.member_refused",
    "link.member_returned",
    "service.restarted",
)
"""Events that say that something went wrong, or was made to."""

_STEP = re.compile(
    r"\[tfhet\] step=(?P<step>\d+) epoch=(?P<epoch>\d+) step_ms=(?P<step_ms>[\d.]+)"
    r" examples_per_s=(?P<examples_per_s>\d+)"
    r"(?: loss=(?P<loss>\S+))? wait_pct=(?P<wait_pct>[\d.]+)"
)
_WORKERS = re.compile(r" job: .*, (\d+) workers\b")


@dataclass(frozen=True)
class StepLine:
    """The numbers of one metric line, which are means over the steps since the one before."""

    step: int
    epoch: int
    step_ms: float
    examples_per_s: float
    wait_pct: float
    """Share of the steps' time spent waiting for data, 0 to 100."""
    loss: str
    """As printed; "" where the line has none."""


@dataclass(frozen=True)
class Picture:
    """The run at one moment."""

    state: str
    """`starting`, `training`, `ending`, `succeeded` or `failed`, with its cause where there is one."""
    is_over: bool
    """Whether the run has ended."""
    exit_code: int | None
    """Of the job, once it is over."""
    elapsed_s: float | None
    """Since the first event; of a run that is over, how long it took."""
    steps: Sequence[StepLine]
    """All metric lines in the order of steps; the last one is now."""
    workers: int | None
    """Of data, as the launchers said; None where none said."""
    hosts: Mapping[str, str]
    """By host, or member of the link (`rank-1`), what it does."""
    restarts: int
    """How often a part was started again."""
    incidents: Sequence[Mapping[str, Any]]
    """The events among INCIDENTS, in order."""
    quiet_s: float | None
    """For how long nothing in the folder has changed; None of an empty one."""


class Watcher:
    """Reads what is new in the folder of a run."""

    def __init__(self, folder: RunFolder, clock: clocks.Clock = clocks.SYSTEM):
        self._folder = folder
        self._clock = clock
        self._read: dict[Path, int] = {}
        self._steps: dict[int, StepLine] = {}
        self._workers: int | None = None

    def look(self) -> Picture:
        """The picture now. Raises UsageError or DataError for a summary that cannot be read."""
        summary = self._folder.read_summary() if self._folder.summary_path.is_file() else None
        logs = sorted(self._folder.logs_path.glob("*.log"))
        for path in logs:
            for line in self._new_lines(path):
                self._take(line)
        places = self._event_places()
        events = [
            event for place in places for event in RunFolder(place).events() if isinstance(event.get("event"), str)
        ]
        events.sort(key=_time)
        is_over = summary is not None and summary.exit_code is not None
        state = _ended(summary) if summary is not None and is_over else _state(events)
        files = [*logs, *(RunFolder(place).events_path for place in places), self._folder.summary_path]
        changed = [path.stat().st_mtime for path in files if path.is_file()]
        now, began = self._clock.wall(), _time(events[0]) if events else None
        return Picture(
            state=state,
            is_over=is_over,
            exit_code=summary.exit_code if summary else None,
            elapsed_s=summary.duration_s if summary and is_over else None if began is None else max(0.0, now - began),
            steps=[self._steps[step] for step in sorted(self._steps)],
            workers=self._workers,
            hosts=_hosts([path.stem for path in logs], events),
            restarts=sum(event["event"] == "service.restarted" for event in events),
            incidents=[event for event in events if event["event"] in INCIDENTS],
            quiet_s=max(0.0, now - max(changed)) if changed else None,
        )

    def _event_places(self) -> list[Path]:
        """The simulator copies the chief's events into the run's folder at the end; until then they are below it."""
        if self._folder.events_path.is_file():
            return [self._folder.path]
        return sorted(path.parent for path in self._folder.path.glob("hosts/*/output/data/tfhet/events.jsonl"))

    def _new_lines(self, path: Path) -> Iterator[str]:
        """The whole lines that came since the last look; of a file that became shorter, all."""
        start = self._read.get(path, 0)
        with open(path, "rb") as file:
            if file.seek(0, 2) < start:
                start = 0
            file.seek(start)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                start += len(line)
                yield line.decode("utf-8", errors="replace")
        self._read[path] = start

    def _take(self, line: str) -> None:
        if (found := _STEP.search(line)) is not None:
            told = found.groupdict()
            step = int(told["step"][:18])
            try:
                step_ms, pace, wait_pct = (float(told[name]) for name in ("step_ms", "examples_per_s", "wait_pct"))
            except ValueError:  # 1.2.3: the output of two processes, mixed
                return
            self._steps[step] = StepLine(step, int(told["epoch"][:18]), step_ms, pace, wait_pct, told["loss"] or "")
        elif (said := _WORKERS.search(line)) is not None:
            self._workers = int(said.group(1)[:9])


def _time(event: Mapping[str, Any]) -> float:
    at = event.get("time_s")
    return float(at) if isinstance(at, (int, float)) else 0.0


def _ended(summary: RunSummary) -> str:
    return "succeeded" if summary.succeeded else f"failed: {summary.cause or f'exit code {summary.exit_code}'}"


def _state(events: Sequence[Mapping[str, Any]]) -> str:
    by_name = {event["event"]: event for event in events}
    if (decided := by_name.get("job.decided")) is not None:
        return f"ending: {decided.get('cause')}"
    return "training" if "training.started" in by_name else "starting"


def _hosts(logs: Sequence[str], events: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    found = dict.fromkeys(logs, "running")
    for event in events:
        name, who = event["event"], str(event.get("member") or event.get("host") or "")
        if name in ("link.member_joined", "link.member_returned"):
            found[who] = "joined"
        elif name == "link.member_left":
            found[who] = f"left, code {event.get('code')}"
        elif name in ("link.member_lost", "host.lost"):
            found[who] = f"lost: {event.get('reason')}"
        elif name == "host.ended":
            found[who] = f"ended, code {event.get('code')}"
    return found


def told(event: Mapping[str, Any]) -> str:
    """An event in one line, its time apart."""
    rest = (f"{key}={json.dumps(value, default=str)}" for key, value in event.items() if key not in ("time_s", "event"))
    return " ".join([str(event.get("event")), *rest])
