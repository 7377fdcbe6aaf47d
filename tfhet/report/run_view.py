"""What a page shows of one run: its record, its folder where there is one, and what follows from them."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tfhet.errors import TfhetError
from tfhet.record import Figure, RunFolder, RunSummary, Timeline
from tfhet.report import numbers
from tfhet.report.bars import BarChart, bar_chart
from tfhet.report.chart import LineChart, line_chart
from tfhet.report.utilisation import HostCpu, reading_s, use_of_hosts
from tfhet.telemetry import process_summaries

EVENTS_SHOWN = 200
LOG_LINES = 40


@dataclass(frozen=True)
class RunView:
    """One run, ready for the page."""

    run: RunSummary
    name: str
    """Under which the page shows it."""
    folder: RunFolder | None = None
    """None where only its summary is given."""
    hosts: Sequence[HostCpu] = ()
    events: Sequence[Mapping[str, str]] = ()
    """Each with `when`, `name` and `rest`."""
    events_hidden: int = 0
    """Left out in the middle."""
    timeline: Timeline = Timeline()
    """Steps and usage that its hosts recorded; may be empty."""

    @classmethod
    def of(cls, run: RunSummary, folder: RunFolder | None = None) -> RunView:
        """The view of a run; reads events and logs of its folder."""
        found = list(folder.events()) if folder else []
        events, hidden = _events(found, run.started)
        name = run.name or (folder.path.resolve().name if folder else "") or run.job_id or run.mode
        hosts = tuple(use_of_hosts(run, reading_s(found)))
        timeline = Timeline()
        with contextlib.suppress(TfhetError, OSError):  # a page of the rest is better than none
            timeline = folder.timeline() if folder else timeline
        return cls(run, name, folder, hosts, tuple(events), hidden, timeline)

    @property
    def state(self) -> tuple[str, str]:
        """Whether it ended well: `good`, `bad` or `open`, and the words."""
        if self.run.exit_code is None:
            return "open", "not ended"
        if self.run.exit_code == 0:
            return "good", "succeeded"
        return "bad", f"failed, exit code {numbers.exit_code(self.run.exit_code)}"

    @property
    def is_simulated(self) -> bool:
        """Whether its hosts were simulated: what a platform would have said, and nothing was paid."""
        return self.run.status is not None and self.run.billable_s is None

    @property
    def charts(self) -> list[tuple[str, LineChart]]:
        """Lines over the steps, each with its kind: `step` or `wait`."""
        found, step, wait = [], self.run.step_ms, self.run.wait_ms
        if step is not None:
            chart = line_chart("Step time (ms)", step.samples, "ms")
            found += [("step", chart)] if chart else []
        if step is not None and wait is not None:
            pairs = zip(wait.samples, step.samples, strict=False)
            shares = [100.0 * min(1.0, max(0.0, wait / step)) if step > 0 else 0.0 for wait, step in pairs]
            chart = line_chart("Share of the step waiting for data (%)", shares, "%", top=100.0)
            found += [("wait", chart)] if chart else []
        return found

    @property
    def parts(self) -> BarChart | None:
        """Where the time of a step goes; None of a run that was not traced."""
        parts = {name: Figure.single(time, unit="ms") for name, time in self.run.step_parts_ms.items()}
        return bar_chart("Where the time of a step goes, median of rank 0", parts, is_linear=True)

    @property
    def processes(self) -> BarChart | None:
        """What each process used, from the timeline."""
        found = process_summaries(self.timeline)
        figures = {f"{one.host}: {one.name}": Figure.single(one.cpus, unit="CPUs") for one in found}
        return bar_chart("CPUs used by each process, in the mean", figures, is_linear=True)

    @property
    def pipeline(self) -> list[tuple[str, str]]:
        """The stages in order with their places, and "" for the cut between those of a group and of the trainer."""
        lines: list[tuple[str, str]] = []
        for stage, place in self.run.stages_where.items():
            if place == "trainer" and lines and lines[-1][1] != "trainer":
                lines.append(("", "trainer"))
            lines.append((stage, place))
        return lines

    @property
    def logs(self) -> list[tuple[str, list[str]]]:
        """The last lines of every host's log."""
        return [(host, self.folder.log_tail(host, LOG_LINES)) for host in self.folder.hosts()] if self.folder else []


def views(runs: Sequence[tuple[RunSummary, Path | None]]) -> list[RunView]:
    """Views under names that differ."""
    found: dict[str, RunView] = {}
    for run, path in runs:
        view = RunView.of(run, RunFolder(path) if path else None)
        name, count = view.name, 2
        while name in found:
            name, count = f"{view.name} #{count}", count + 1
        found[name] = replace(view, name=name)
    return list(found.values())


def machine_facts(machine: Mapping[str, Any], versions: Mapping[str, str]) -> list[tuple[str, str]]:
    """The machine and the versions of a record, as names and words."""
    machine = dict(machine)
    memory = machine.pop("memory_bytes", None)
    facts = [(key.replace("_", " "), value(said)) for key, said in machine.items() if said not in (None, [], "")]
    if isinstance(memory, (int, float)):
        facts.append(("memory", numbers.size(memory)))
    return facts + [(name, str(version)) for name, version in versions.items()]


def value(said: Any) -> str:
    """A value of a record in words: lists with commas, numbers as people read them."""
    if isinstance(said, (list, tuple)):
        return ", ".join(str(item) for item in said) or numbers.MISSING
    if said is None or (isinstance(said, (int, float)) and not isinstance(said, bool)):
        return numbers.number(said)
    return str(said)


def _events(found: Sequence[Mapping[str, Any]], begin: float | None) -> tuple[list[dict[str, str]], int]:
    """The first and last events with their times since `begin`, or since the first; and how many are left out."""
    rows = []
    for event in found:
        at, when = event.get("time_s"), ""
        if isinstance(at, (int, float)):
            begin = float(at) if begin is None else begin
            when = f"{at - begin:+.2f} s"
        rest = "  ".join(f"{key}={value(content)}" for key, content in event.items() if key not in ("time_s", "event"))
        rows.append({"when": when, "name": str(event.get("event", "")), "rest": rest})
    if len(rows) <= EVENTS_SHOWN:
        return rows, 0
    half = EVENTS_SHOWN // 2
    return rows[:half] + rows[-half:], len(rows) - 2 * half
