"""A run as its folder shows it while it goes on: steps from the logs, what happened from the events."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tfhet import clock as clocks
from tfhet.messages import HostLine, MetricLine, parse_line
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
"""Events of something that went wrong, or was made to."""


@dataclass(frozen=True)
class Picture:
    """The run at one moment."""

    state: str
    """`starting`, `training`, `ending`, `succeeded` or `failed`, with its cause where there is one."""
    is_over: bool
    """Whether the run has ended."""
    exit_code: int | None = None
    """Exit code of the job, once it is over."""
    elapsed_s: float | None = None
    """Seconds since the first event; the duration of a run that is over."""
    steps: Sequence[MetricLine] = ()
    """All metric lines in the order of steps; the last one is now."""
    workers: int | None = None
    """Number of data workers, as the launchers said; None where none said."""
    hosts: Mapping[str, str] = field(default_factory=dict)
    """By host, or member of the link (`rank-1`), what it does."""
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

    @property
    def headline(self) -> str:
        """The picture in one line: `demo: InProgress, Training; 12 min 03 s, $3.21 so far`."""
        return f"{self.name}: {self.state}{f'; {self.cost}' if self.cost else ''}"


class Watcher:
    """Reads what is new in the folder of a run."""

    def __init__(self, folder: RunFolder, clock: clocks.Clock = clocks.SYSTEM):
        self._folder = folder
        self._clock = clock
        self._read: dict[Path, int] = {}
        self._steps: dict[int, MetricLine] = {}
        self._workers: int | None = None

    def look(self) -> Picture:
        """The picture now. Raises UsageError or DataError for a summary that cannot be read."""
        summary = self._folder.read_summary() if self._folder.summary_path.is_file() else None
        logs = sorted(self._folder.logs_path.glob("*.log"))
        for path in logs:
            for line in self._new_lines(path):
                self._take(line)
        events = [event for event in self._folder.events() if isinstance(event.get("event"), str)]
        by_host = self._folder.host_events()
        is_over = summary is not None and summary.exit_code is not None
        files = [*logs, *by_host.values(), self._folder.events_path, self._folder.summary_path]
        changed = [path.stat().st_mtime for path in files if path.is_file()]
        now, began = self._clock.wall(), _time(events[0]) if events else None
        return Picture(
            state=_state(summary, events),
            is_over=is_over,
            exit_code=summary.exit_code if summary else None,
            elapsed_s=summary.duration_s if summary and is_over else None if began is None else max(0.0, now - began),
            steps=[self._steps[step] for step in sorted(self._steps)],
            workers=self._workers,
            hosts=_hosts([path.stem for path in logs], events, leader=next(iter(by_host), ""), is_over=is_over),
            restarts=sum(event["event"] == "service.restarted" for event in events),
            incidents=[event for event in events if event["event"] in INCIDENTS],
            quiet_s=max(0.0, now - max(changed)) if changed else None,
            name=str(self._folder.path),
        )

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
        said = parse_line(line)
        if isinstance(said, MetricLine):
            self._steps[said.step] = said
        elif isinstance(said, HostLine) and said.plane.get("workers", "").isdecimal():
            self._workers = int(said.plane["workers"][:9])


def _time(event: Mapping[str, Any]) -> float:
    at = event.get("time_s")
    return float(at) if isinstance(at, (int, float)) else 0.0


def _state(summary: RunSummary | None, events: Sequence[Mapping[str, Any]]) -> str:
    if summary is not None and summary.exit_code is not None:
        return "succeeded" if summary.succeeded else f"failed: {summary.cause or f'exit code {summary.exit_code}'}"
    by_name = {event["event"]: event for event in events}
    if (decided := by_name.get("job.decided")) is not None:
        return f"ending: {decided.get('cause')}"
    return "training" if "training.started" in by_name else "starting"


def _hosts(logs: Sequence[str], events: Sequence[Mapping[str, Any]], *, leader: str, is_over: bool) -> dict[str, str]:
    """What each host does. leader: the host that writes the job's events, "" where that is not known."""
    found = dict.fromkeys(logs, "running")
    launchers: Sequence[str] = ()
    ended: dict[str, object] = {}
    ranks: list[object] = []
    ranks_there = 1
    for event in events:
        name, who = event["event"], str(event.get("member") or event.get("host") or "")
        if name in ("link.member_joined", "link.member_returned"):
            found[who] = "joined"
        elif name == "link.member_left":
            found[who] = f"left, code {event.get('code')}"
        elif name in ("link.member_lost", "host.lost"):
            found[who] = f"lost: {event.get('reason')}"
        elif name == "job.ranks" and isinstance(event.get("per_host"), int):
            ranks_there = event["per_host"]
        elif name == "rank.ended" and leader:
            ranks.append(event.get("rank"))
            if all(rank in ranks for rank in range(ranks_there)):
                found[leader] = "its ranks have ended"
        elif name == "hosts.started" and isinstance(event.get("launchers"), list):
            launchers = [str(each) for each in event["launchers"]]
        elif name == "host.ended":
            ended[who] = event.get("code")
            host = who.partition("/")[0]  # `algo-2` of `algo-2/1`, which is the launcher of rank 1 there
            all_there = [each for each in launchers if each.partition("/")[0] == host] or [who]
            if all(each in ended for each in all_there):
                found[host] = f"ended, code {next(filter(None, map(ended.get, all_there)), 0)}"
    return {name: "ended" if is_over and does == "running" else does for name, does in found.items()}


def event_line(event: Mapping[str, Any]) -> str:
    """An event in one line, its time apart."""
    rest = (f"{key}={json.dumps(value, default=str)}" for key, value in event.items() if key not in ("time_s", "event"))
    return " ".join([str(event.get("event")), *rest])
