"""The state of a run, read from its folder: steps, hosts, faults."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tfhet import clock as clocks
from tfhet.advice import unread
from tfhet.messages import HostLine, MetricLine, parse_line
from tfhet.record import LineTail, LiveRank, LiveRun, RunFolder, RunSummary
from tfhet.report import numbers

READING = "training.reading"
"""Event of the first read of the ranks."""
UNREAD_S = 60.0
"""Seconds after the start of the script from which it is named that no rank has read."""
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
"""Events of faults, injected or not."""


@dataclass(frozen=True)
class Picture:
    state: str
    """`starting`, `training`, `ending`, `succeeded` or `failed`, with the cause."""
    is_over: bool
    exit_code: int | None = None
    elapsed_s: float | None = None
    """Seconds since the first event, or the duration of a finished run."""
    steps: Sequence[MetricLine] = ()
    workers: int | None = None
    hosts: Mapping[str, str] = field(default_factory=dict)
    restarts: int = 0
    incidents: Sequence[Mapping[str, Any]] = ()
    quiet_s: float | None = None
    """Seconds since the last change of the folder; None if it is empty."""
    name: str = ""
    cost: str = ""
    """Cost so far, in words; may be empty."""


def event_line(event: Mapping[str, Any]) -> str:
    """Returns an event in one line, without its time."""
    rest = (f"{key}={json.dumps(value, default=str)}" for key, value in event.items() if key not in ("time_s", "event"))
    return " ".join([str(event.get("event")), *rest])


class Watcher:
    """Reads the changes in the folder of a run."""

    def __init__(self, folder: RunFolder, clock: clocks.Clock = clocks.SYSTEM):
        self._folder = folder
        self._clock = clock
        self._logs: dict[Path, LineTail] = {}
        self._steps: dict[int, MetricLine] = {}
        self._workers: int | None = None
        self._data_groups: dict[str, None] = {}
        """Groups whose hosts said that they deliver data."""

    def look(self) -> Picture:
        """Returns the current state. Raises UsageError or DataError for an unreadable summary."""
        summary = self._folder.read_summary() if self._folder.summary_path.is_file() else None
        logs = sorted(self._folder.logs_path.glob("*.log"))
        tails = (self._logs.setdefault(path, LineTail(path)) for path in logs)
        for line in (line for tail in tails for line in tail.new()):
            found = parse_line(line.decode("utf-8", errors="replace"))
            if isinstance(found, MetricLine):
                self._steps[found.step] = found
            if isinstance(found, HostLine) and found.role == "data":
                self._data_groups[found.group] = None
            if isinstance(found, HostLine) and found.plane.get("workers", "").isdecimal():
                self._workers = int(found.plane["workers"][:9])
        events = [event for event in self._folder.events() if isinstance(event.get("event"), str)]
        is_over = summary is not None and (summary.exit_code is not None or _has_ended(events))
        live = LiveRun() if is_over else self._folder.read_live()
        self._steps.update({step.step: step for step in _live_steps(live.ranks)})
        own = [self._folder.events_path, self._folder.summary_path, self._folder.live_path]
        files = [*logs, *self._folder.host_events().values(), *own]
        changed = [path.stat().st_mtime for path in files if path.is_file()]
        now, began = self._clock.wall(), events[0].get("time_s") if events else None
        elapsed_s = max(0.0, now - began) if isinstance(began, (int, float)) else None
        state = _state(summary, events, any(each.steps for each in live.ranks))
        return Picture(
            state=state + (self._unread(events, summary, now) if self._data_groups else ""),
            is_over=is_over,
            exit_code=summary.exit_code if summary else None,
            elapsed_s=summary.duration_s if summary and is_over else elapsed_s,
            steps=[self._steps[step] for step in sorted(self._steps)],
            workers=self._workers,
            hosts={**_hosts([path.stem for path in logs], events, is_over=is_over), **_live_ranks(live.ranks)},
            restarts=sum(event["event"] == "service.restarted" for event in events),
            incidents=[event for event in events if event["event"] in INCIDENTS],
            quiet_s=max(0.0, now - max(changed)) if changed else None,
            name=str(self._folder.path),
        )

    def _unread(self, events: Sequence[Mapping[str, Any]], summary: RunSummary | None, now_s: float) -> str:
        """Names the data groups from which no rank has read, after the state of the run."""
        if summary is not None and summary.exit_code is not None:
            found = unread(summary)
            return f"; {found.clause}" if found else ""
        first = {str(event["event"]): event for event in reversed(events)}
        began_s = first.get("training.started", {}).get("time_s")
        waited_s = now_s - began_s if isinstance(began_s, (int, float)) else 0.0
        if self._steps or READING in first or "job.decided" in first or waited_s < UNREAD_S:
            return ""
        if first["training.started"].get("sees_reads") is not True:
            return ""
        return f"; no rank has read from {', '.join(self._data_groups)} since the script began more than a minute ago"


def _has_ended(events: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a script has ended that watched itself, and that cannot know its exit code."""
    return any(event["event"] == "watch.ended" for event in events)


def _live_steps(ranks: Sequence[LiveRank]) -> list[MetricLine]:
    """The numbers of the first rank, with the examples of all ranks."""
    timed = [each for each in ranks if each.step_ms is not None]
    if not timed or not ranks[0].steps or timed[0] is not ranks[0]:
        return []
    first, examples_per_s = timed[0], sum(each.examples_per_s or 0.0 for each in timed)
    return [MetricLine(first.steps, first.epoch, first.step_ms or 0.0, examples_per_s, first.wait_pct or 0.0)]


def _live_ranks(ranks: Sequence[LiveRank]) -> dict[str, str]:
    return {
        f"rank {each.rank} on {each.host}": f"step {each.steps}, epoch {each.epoch}: "
        f"{numbers.number(each.step_ms, unit='ms')}, waiting {numbers.percent(each.wait_pct)}"
        if each.steps
        else f"{each.batches} batches, none known to be for training"
        for each in ranks
    }


def _state(summary: RunSummary | None, events: Sequence[Mapping[str, Any]], has_steps: bool = False) -> str:
    if summary is not None and summary.exit_code is not None:
        cause = f": {summary.cause or f'exit code {summary.exit_code}'}" * (not summary.succeeded)
        return f"{summary.outcome}{cause}"
    if _has_ended(events):
        return "ended, exit code not known"
    by_name = {event["event"]: event for event in events}
    if "job.decided" in by_name:
        return f"ending: {by_name['job.decided'].get('cause')}"
    return "training" if has_steps or "training.started" in by_name else "starting"


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
