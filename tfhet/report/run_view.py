"""One run for a page: its summary, the content of its folder, and the CPU use of each host."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tfhet.advice import next_commands, of_run
from tfhet.errors import TfhetError
from tfhet.planes import is_noise
from tfhet.record import Figure, RunFolder, RunSummary, Timeline, Waiting
from tfhet.report.chart import BarChart, LineChart, Points, bar_chart, line_chart
from tfhet.report.picture import INCIDENTS, event_line
from tfhet.telemetry import host_cpus, process_summaries

EVENTS_SHOWN = 200
LOG_LINES = 40
READING_BEGAN, RANK_ENDED = "reading.seen", "rank.ended"
"""Events between which `reading_cpu_s` is counted."""
_PAUSES = {"between epochs": "a pause between epochs"}
"""Words for pauses whose name is no noun."""
STEPS = {"step": ("Step time (ms)", "ms"), "wait": ("Share of the step waiting for data (%)", "%")}


@dataclass(frozen=True)
class HostCpu:
    """The use of one host; None for unknown values."""

    name: str
    group: str
    cpu_s: float | None
    reading_cpu_s: float | None
    """CPU seconds while the ranks read data."""
    cpus_used: float | None
    """Mean number of used CPUs while the ranks read data, or of the whole run."""
    limits: Mapping[str, Any]
    """Limits `cpus`, `memory_bytes` and `bits_per_s` (network, each direction)."""

    @property
    def used_pct(self) -> float | None:
        """`cpus_used` as a share of the limit, in percent."""
        cpus = _real(self.limits.get("cpus"))
        return _real(100.0 * self.cpus_used / cpus) if self.cpus_used is not None and cpus else None


def reading_s(events: Iterable[Mapping[str, Any]]) -> float | None:
    """Returns seconds from the first read to the end of the last rank; None if unknown."""
    times: dict[object, list[float]] = {READING_BEGAN: [], RANK_ENDED: []}
    for event in events:
        if event.get("event") in times and (at_s := _real(event.get("time_s"))) is not None:
            times[event["event"]].append(at_s)
    if not all(times.values()):
        return None
    lasted_s = max(times[RANK_ENDED]) - min(times[READING_BEGAN])
    return lasted_s if lasted_s > 0 else None


def use_of_hosts(summary: RunSummary, lasted_s: float | None = None) -> list[HostCpu]:
    """Returns the hosts with CPU counts, in the order of the cluster. lasted_s: seconds that the ranks read data."""
    groups = {str(host): name for name, group in summary.cluster.items() for host in group.get("hosts") or ()}
    counted = sorted({*summary.host_cpu_s, *summary.reading_cpu_s})
    found = []
    for name in [*(host for host in groups if host in counted), *(host for host in counted if host not in groups)]:
        whole, reading = _real(summary.host_cpu_s.get(name)), _real(summary.reading_cpu_s.get(name))
        cpu_s, seconds = (reading, lasted_s) if reading is not None and lasted_s else (whole, _real(summary.duration_s))
        used = _real(cpu_s / seconds) if cpu_s is not None and seconds else None
        found.append(HostCpu(name, groups.get(name, ""), whole, reading, used, summary.limits.get(name) or {}))
    return found


@dataclass(frozen=True)
class RunView:
    """One run, ready for the page."""

    run: RunSummary
    name: str
    folder: RunFolder | None = None
    hosts: Sequence[HostCpu] = ()
    events: Sequence[Mapping[str, Any]] = ()
    events_hidden: int = 0
    """Number of omitted events between them."""
    timeline: Timeline = Timeline()
    waits: Waiting = Waiting()
    happened: Sequence[tuple[float, str]] = ()
    """Incidents and pauses, with their times in seconds since 1970."""

    @classmethod
    def of(cls, run: RunSummary, folder: RunFolder | None = None) -> RunView:
        found = folder.events() if folder else []
        half = EVENTS_SHOWN // 2
        hidden = max(0, len(found) - 2 * half)
        name = run.name or (folder.path.resolve().name if folder else "") or run.job_id or run.mode
        timeline = Timeline()
        with contextlib.suppress(TfhetError, OSError):  # a page of the rest is better than none
            timeline = folder.timeline() if folder else timeline
        shown = found[:half] + found[-half:] if hidden else found
        happened = [(pause.at_s + pause.dur_s, _PAUSES.get(pause.name, f"a {pause.name}")) for pause in timeline.pauses]
        incidents = [event for event in found if event.get("event") in INCIDENTS and "time_s" in event]
        happened += [(event["time_s"], event_line(event)) for event in incidents]
        waits, use = Waiting.of_run(run, timeline.steps), use_of_hosts(run, reading_s(found))
        return cls(run, name, folder, use, shown, hidden, timeline, waits, happened)

    @property
    def is_simulated(self) -> bool:
        """Whether the hosts were simulated: the run has a platform's status, but no bill."""
        return self.run.status is not None and self.run.billable_s is None

    @property
    def lines(self) -> dict[str, Points]:
        """Step time and share of waiting by step, and the measures of the run by epoch."""
        steps, waits = (spread.samples if spread else () for spread in (self.run.step_ms, self.run.wait_ms))
        pairs = zip(waits, steps, strict=False)
        shares = [100.0 * min(1.0, max(0.0, wait / step)) if step > 0 else 0.0 for wait, step in pairs]
        return {"step": list(enumerate(steps, 1)), "wait": list(enumerate(shares, 1)), **self.run.measures}

    @property
    def charts(self) -> dict[str, LineChart]:
        """Charts by kind: `step` and `wait` by step, `loss` and `share` by epoch, `cpus` by second."""
        parts = {"epoch starts": self.waits.epoch_starts, "stalls": self.waits.stalls}
        marks = {name: [index + 1 for index in part.steps] for name, part in parts.items() if part.steps}
        measures, cpus = self.run.measures, host_cpus(self.timeline)
        losses = {name: measures.pop(name) for name in list(measures) if name.endswith("loss")}
        found = {
            "step": line_chart(*STEPS["step"], {"": self.lines["step"]}),
            "wait": line_chart(*STEPS["wait"], {"": self.lines["wait"]}, marks=marks),
            "loss": line_chart("Loss by epoch", "", losses, x="epoch"),
            "share": line_chart("Shares by epoch", "", measures, x="epoch"),
            "cpus": line_chart("CPUs used by each host, in seconds since the first step", "CPUs", cpus, x="second"),
        }
        return {kind: chart for kind, chart in found.items() if chart}

    @property
    def parts(self) -> BarChart | None:
        parts = {name: Figure.single(time, unit="ms") for name, time in self.run.step_parts_ms.items()}
        return bar_chart("Where the time of a step goes, median of rank 0", parts)

    @property
    def functions(self) -> BarChart | None:
        """Functions of the input code by their share of the samples of stacks, in a run of `tfhet watch`."""
        if self.run.part_us:
            parts = {name: Figure.single(part_us, unit="us") for name, part_us in self.run.part_us.items()}
            return bar_chart("Parts of the pipeline, time of an example", parts)
        where = self.run.watched.get("where") or ()
        figures = {str(each["what"]): Figure.single(each["pct"], unit="%") for each in where}
        role = self.run.watched.get("where_role")
        if role == "core":
            return bar_chart("Parts of the pipeline, share of its time", figures)
        of = "the workers of the loader" if role == "worker" else "the waiting process"
        return bar_chart(f"Functions in which {of} spent the time, share of the samples", figures)

    @property
    def processes(self) -> BarChart | None:
        found = process_summaries(self.timeline)
        figures = {f"{one.host}: {one.name}": Figure.single(one.cpus, unit="CPUs") for one in found}
        return bar_chart("CPUs used by each process, in the mean", figures)

    @property
    def use(self) -> BarChart | None:
        known = [host for host in self.hosts if host.cpus_used is not None]
        used = {f"{host.name} ({host.group})" if host.group else host.name: host for host in known}
        figures = {name: Figure.single(host.cpus_used or 0.0, unit="CPUs") for name, host in used.items()}
        limits = {name: cpus for name, host in used.items() if (cpus := _real(host.limits.get("cpus"))) is not None}
        return bar_chart("CPUs used by each host, in the mean", figures, limits=limits)

    @property
    def busiest_data_host(self) -> tuple[str, float] | None:
        """Name of the busiest data host, and its share of used CPUs in percent; None if unknown."""
        groups = [name for name, group in self.run.cluster.items() if group.get("role") == "data"]
        data = [host for host in self.hosts if host.group in groups]
        known = [(host.name, host.used_pct) for host in data if host.used_pct is not None]
        return max(known, key=lambda each: each[1], default=None)

    @property
    def next_commands(self) -> list[str]:
        """The next commands, in order; empty without a folder."""
        return next_commands(of_run(self.run, waits=self.waits), self.run, self.folder) if self.folder else []

    @property
    def logs(self) -> list[tuple[str, list[str]]]:
        """The last lines of each host's log, without noise."""
        tails = {host: self.folder.log_tail(host, 9 * LOG_LINES) for host in self.folder.hosts()} if self.folder else {}
        return [(host, [each for each in tail if not is_noise(each, 1)][-LOG_LINES:]) for host, tail in tails.items()]


def views(runs: Iterable[tuple[RunSummary, Path | None]]) -> list[RunView]:
    """Returns views with unique names: runs of one name are called by their folders, else numbered."""
    every = [RunView.of(run, RunFolder(path) if path else None) for run, path in runs]
    shared, found = Counter(view.name for view in every), dict[str, RunView]()
    for view in every:
        name = view.folder.path.resolve().name if view.folder and shared[view.name] > 1 else view.name
        name = next(each for each in (name, *(f"{name} #{n}" for n in range(2, len(every) + 2))) if each not in found)
        found[name] = replace(view, name=name)
    return list(found.values())


def _real(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) and 0 <= value < 1e300 else None
