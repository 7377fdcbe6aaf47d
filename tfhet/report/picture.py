"""A run at one moment, read from its folder: its steps, its hosts, and what happened."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tfhet import clock as clocks
from tfhet.messages import HostLine, MetricLine, parse_line
from tfhet.record import LineTail, RunFolder, RunSummary

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
"""Events of faults, whether they were injected or not."""


@dataclass(frozen=True)
class Picture:
    """The run at one moment."""

    state: str
    """`starting`, `training`, `ending`, `succeeded` or `failed`, with its cause where there is one."""
    is_over: bool
    exit_code: int | None = None
    """Exit code of the job, once it is over."""
    elapsed_s: float | None = None
    """Seconds since the first event; the duration of a run that is over."""
    steps: Sequence[MetricLine] = ()
    """All metric lines in the order of steps; the last one is now."""
    workers: int | None = None
    """Number of data workers that the launchers reported; None where none did."""
    hosts: Mapping[str, str] = field(default_factory=dict)
    """State of each host, or member of the link (`rank-1`), in words."""
    restarts: int = 0
    """Number of processes that were started again."""
    incidents: Sequence[Mapping[str, Any]] = ()
    """The events among INCIDENTS, in order."""
    quiet_s: float | None = None
    """Seconds since anything in the folder changed; None for an empty folder."""
    name: str = ""
    """Name of the job, or the folder."""
    cost: str = ""
    """The cost of the run so far, in words; "" where it costs nothing."""


def event_line(event: Mapping[str, Any]) -> str:
    """An event in one line, without its time."""
    rest = (f"{key}={json.dumps(value, default=str)}" for key, value in event.items() if key not in ("time_s", "event"))
    return " ".join([str(event.get("event")), *rest])


class Watcher:
    """Reads what is new in the folder of a run."""

    def __init__(self, folder: RunFolder, clock: clocks.Clock = clocks.SYSTEM):
        self._folder = folder
        self._clock = clock
        self._logs: dict[Path, LineTail] = {}
        self._steps: dict[int, MetricLine] = {}
        self._workers: int | None = None

    def look(self) -> Picture:
        """The picture now. Raises UsageError or DataError for a summary that cannot be read."""
        summary = self._folder.read_summary() if self._folder.summary_path.is_file() else None
        logs = sorted(self._folder.logs_path.glob("*.log"))
        tails = (self._logs.setdefault(path, LineTail(path)) for path in logs)
        for line in (line for tail in tails for line in tail.new()):
            found = parse_line(line.decode("utf-8", errors="replace"))
            if isinstance(found, MetricLine):
                self._steps[found.step] = found
            elif isinstance(found, HostLine) and found.plane.get("workers", "").isdecimal():
                self._workers = int(found.plane["workers"][:9])
        events = [event for event in self._folder.events() if isinstance(event.get("event"), str)]
        is_over = summary is not None and summary.exit_code is not None
        files = [*logs, *self._folder.host_events().values(), self._folder.events_path, self._folder.summary_path]
        changed = [path.stat().st_mtime for path in files if path.is_file()]
        now, began = self._clock.wall(), events[0].get("time_s") if events else None
        elapsed_s = max(0.0, now - began) if isinstance(began, (int, float)) else None
        return Picture(
            state=_state(summary, events),
            is_over=is_over,
            exit_code=summary.exit_code if summary else None,
            elapsed_s=summary.duration_s if summary and is_over else elapsed_s,
            steps=[self._steps[step] for step in sorted(self._steps)],
            workers=self._workers,
            hosts=_hosts([path.stem for path in logs], events, is_over=is_over),
            restarts=sum(event["event"] == "service.restarted" for event in events),
            incidents=[event for event in events if event["event"] in INCIDENTS],
            quiet_s=max(0.0, now - max(changed)) if changed else None,
            name=str(self._folder.path),
        )


def _state(summary: RunSummary | None, events: Sequence[Mapping[str, Any]]) -> str:
    if summary is not None and summary.exit_code is not None:
        return "succeeded" if summary.succeeded else f"failed: {summary.cause or f'exit code {summary.exit_code}'}"
    by_name = {event["event"]: event for event in events}
    if "job.decided" in by_name:
        return f"ending: {by_name['job.decided'].get('cause')}"
    return "training" if "training.started" in by_name else "starting"


def _hosts(logs: Sequence[str], events: Sequence[Mapping[str, Any]], *, is_over: bool) -> dict[str, str]:
    found = dict.fromkeys(logs, "running")
    launchers: Sequence[str] = ()
    ended: dict[str, object] = {}
    for event in events:
        who = str(event.get("member") or event.get("host") or "")
        match event["event"]:
            case "link.member_joined" | "link.member_returned":
                found[who] = "joined"
            case "link.member_left":
                found[who] = f"left, code {event.get('code')}"
            case "link.member_lost" | "host.lost":
                found[who] = f"lost: {event.get('reason')}"
            case "hosts.started" if isinstance(event.get("launchers"), list):
                launchers = [str(each) for each in event["launchers"]]
            case "host.ended":
                ended[who] = event.get("code")
                host = who.partition("/")[0]  # `algo-2` of `algo-2/1`, which is the launcher of rank 1 there
                all_there = [each for each in launchers if each.partition("/")[0] == host] or [who]
                if all(each in ended for each in all_there):
                    found[host] = f"ended, code {next(filter(None, map(ended.get, all_there)), 0)}"
    return {name: "ended" if is_over and state == "running" else state for name, state in found.items()}
